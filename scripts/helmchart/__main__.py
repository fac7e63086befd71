"""Write what is generated of charts/rayllm: `make chart`."""

from __future__ import annotations

from scripts.helmchart.chart import CHART, files

if __name__ == "__main__":
    for name, text in files().items():
        (CHART / name).write_text(text, encoding="utf-8")
