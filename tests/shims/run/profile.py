"""Begins a program where one system call is refused, as a container's profile does.

`python profile.py NUMBER PROGRAM...`: the call with this number fails with EPERM.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
lines = [
    (0x20, 0, 0, 0),  # load the number
    (0x15, 0, 1, int(sys.argv[1])),  # is it the one?
    (0x06, 0, 0, 0x00050000 | 1),  # EPERM
    (0x06, 0, 0, 0x7FFF0000),  # allowed
]
code = b"".join(struct.pack("=HBBI", *each) for each in lines)
room = ctypes.create_string_buffer(code, len(code))
filter_ = struct.pack("@HP", len(lines), ctypes.addressof(room))
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
if libc.prctl(22, 2, filter_, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
