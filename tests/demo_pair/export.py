#!/usr/bin/env python3
"""Writes the trained target in the published on-disk layout: experts in MXFP4, the rest in BF16."""
import argparse

import torch

from checkpoint import write_target


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", help="target.pt of train_target.py")
    parser.add_argument("tokenizer", help="tokenizer.json")
    parser.add_argument("out", help="target folder")
    args = parser.parse_args()
    quality = write_target(args.out, torch.load(args.state), args.tokenizer)
    print(f"signal to noise of the experts: least {min(quality):.2f} dB, mean {sum(quality) / len(quality):.2f} dB")


if __name__ == "__main__":
    main()
