"""How this side begins an HTTP/2 connection: what it takes at once, and how much may lie unread.

Source: RFC 9113 section 6.5.2. Refuses pushed responses.
"""

from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.settings

__all__ = ["MOST_STREAMS", "begun"]

MOST_STREAMS = 100  # at once on one connection; RFC 9113 section 6.5.2 suggests no less
STREAM_WINDOW = 1 << 20  # bytes of one response that may lie unread
CONNECTION_WINDOW = 1 << 24  # httpcore's
MOST_HEADERS = 65_536  # httpcore's limit for a header list


def begun() -> h2.connection.H2Connection:
    """A client's connection; its first bytes are ready to be sent."""
    config = h2.config.H2Configuration(validate_inbound_headers=False, header_encoding=None)
    connection = h2.connection.H2Connection(config)
    codes = h2.settings.SettingCodes
    initial: dict[Any, int] = {
        codes.ENABLE_PUSH: 0,
        codes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        codes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        codes.MAX_HEADER_LIST_SIZE: MOST_HEADERS,
    }
    connection.local_settings = h2.settings.Settings(client=True, initial_values=initial)
    connection.initiate_connection()
    connection.increment_flow_control_window(CONNECTION_WINDOW)
    return connection
