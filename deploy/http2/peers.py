"""What nghttpx does in place of the rules of its upstream side, where it differs with reason: (beginnings of rows' names, the reason)."""

OWN_ROUTE = "has no such route, limit or time"
NO_PROBLEM = "ends the client's stream or connection in place of a 502, or has a page in place of a problem"
NO_TOKEN = "injects no token"
NO_REPEAT = "repeats no request"
ONE_PROTOCOL = "speaks HTTP/2 alone to this upstream"
NO_GRPC = "knows no gRPC"

PEERS = tuple((tuple(names.split()), reason) for names, reason in (
    ("clients_grpc/own_", NO_GRPC),
    ("clients_grpc/replay_refused", None),
    ("clients_grpc/replay rotation/", NO_TOKEN),
    ("clients_node/upstream", NO_REPEAT),
    ("clients_grpc/restart", "leaves an upstream alone for a while that was down"),
    ("upstream_bridges/continue_own upstream_bridges/continue_refused", "sends no 100, and the head of an upload with its first bytes"),
    ("upstream_bridges/early.", "reads the rest of the upload"),
    ("upstream_bridges/torn.http2", "passes NO_ERROR of the upstream on"),
    ("upstream_bridges/torn_early", NO_PROBLEM),
    ("upstream_fields/pseudo upstream_fields/added", OWN_ROUTE),
    ("upstream_fields/secure.", ":scheme is the client's"),
    ("upstream_fields/secure_http1", ONE_PROTOCOL),
    ("upstream_fields/hop_by_hop.http1", "passes fields that Connection names"),
    ("upstream_fields/credential upstream_fields/own_authorization upstream_fields/replay", NO_TOKEN),
    ("upstream_fields/long_head", "sorts fields"),
    ("upstream_malformed/heads upstream_malformed/no_http2 upstream_malformed/silent", NO_PROBLEM),
    ("upstream_malformed/frames.interims upstream_malformed/floods", "has no such limit"),
    ("upstream_malformed/frames.push upstream_malformed/frames_plain", "refuses the promised stream"),
    ("upstream_sharing/before_settings", "refuses what is above the limit"),
    ("upstream_sharing/limit_one_waits upstream_sharing/limit_zero", OWN_ROUTE),
    ("upstream_sharing/limit_one_refuses upstream_sharing/refused", NO_REPEAT),
    ("upstream_ends/goaway_lower upstream_ends/goaway_always upstream_ends/goaway_twice", NO_REPEAT),
    ("upstream_ends/http11_required upstream_ends/upgrade", ONE_PROTOCOL),
    ("upstream_ends/gone", "resets with INTERNAL_ERROR in place of CANCEL"),
    ("upstream_windows/no_window", OWN_ROUTE),
    ("upstream_windows/overflow", NO_PROBLEM),
    ("upstream_windows/stalled_uploads", "its window of a client's connection is 65,535 bytes"),
    ("upstream_life/silent upstream_life/prob upstream_life/requests_max upstream_life/max_age upstream_life/drain.http1", OWN_ROUTE),
    ("upstream_grpc/unary upstream_grpc/streaming upstream_grpc/trailers_only upstream_grpc/torn", None),
    ("upstream_grpc/", NO_GRPC),
    ("upstream_reuse/plain_connection upstream_reuse/stale upstream_reuse/goaway_first", NO_PROBLEM),
    ("upstream_reuse/waiting_goaway upstream_reuse/list_size upstream_reuse/reload", OWN_ROUTE),
    ("upstream_reuse/secure_http1_alone", ONE_PROTOCOL),
    ("upstream_reuse/many", NO_REPEAT),
    ("upstream_times/kept_reset", NO_REPEAT),
    ("upstream_times/kept", None),
    ("upstream_honest/goaway_closed", NO_GRPC),
    ("upstream_sharing/cold upstream_mended/meets_end", NO_REPEAT),
    ("upstream_mixed/", ONE_PROTOCOL),
    ("upstream_mended/reset_read upstream_mended/reset_within", NO_PROBLEM),
    ("upstream_mended/ mended/window mended/half_head mended/ping_alone", OWN_ROUTE),
    ("upstream_random/", "resets streams that it has not opened, if their client leaves early"),
    ("upstream_times/", OWN_ROUTE)))
