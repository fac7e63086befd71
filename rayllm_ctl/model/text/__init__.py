"""Text forms of plain data, and problems with them."""
