"""`python -m rayllm_ctl.serving.batch --settings FILE`."""

from __future__ import annotations

import argparse
import sys

from rayllm_ctl.serving.batch import driver

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="rayllm-batch", description="Run an offline batch job on this Ray cluster.")
    parser.add_argument("--settings", required=True, help="the job's settings, a JSON file")
    sys.exit(driver.main(parser.parse_args().settings))
