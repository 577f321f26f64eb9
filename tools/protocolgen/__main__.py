"""``python tools/protocolgen``: writes ``src/ottla/protocol/generated`` anew."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tools.protocolgen.generate import main

    sys.exit(main(ROOT, check="--check" in sys.argv[1:]))
