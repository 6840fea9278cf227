"""Entry point, as a module of the package or as a bare folder."""

import signal
import sys

if __package__:
    from .cli import main
else:
    # Run as a folder: the folder itself is sys.path[0], where its file names could hide other modules. Load it as a
    # package under a name of its own instead.
    import importlib
    import importlib.util
    from pathlib import Path

    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != folder]
    spec = importlib.util.spec_from_file_location(
        "flashmoe_bench", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["flashmoe_bench"] = package
    spec.loader.exec_module(package)
    main = importlib.import_module("flashmoe_bench.cli").main

if __name__ == "__main__":
    # A time limit's SIGTERM is answered like Ctrl-C: with what was measured so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
