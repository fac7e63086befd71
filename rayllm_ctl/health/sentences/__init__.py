"""What libraries, engines and drivers write when a start fails, and the cause that it stands for."""
