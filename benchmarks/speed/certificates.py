"""A certificate for localhost and the authority that has signed it, made for one run."""

from __future__ import annotations

from pathlib import Path

import trustme

__all__ = ["certificates"]


def certificates(folder: Path) -> tuple[Path, Path]:
    """Files: the server's certificate with its key, and the authority's."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    files = folder / "server.pem", folder / "authority.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(files[0]))
    authority.cert_pem.write_to_path(str(files[1]))
    return files
