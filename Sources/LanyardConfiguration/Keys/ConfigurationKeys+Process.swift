extension ConfigurationKeys {
    static let process: [ConfigurationKey] = [
        .init("store", .section, defaultDescription: "memory only", "Where sessions outlive a restart."),
        .init(
            "store.path", .value(.file(.kept)),
            "The sealed file, in a folder that only Lanyard's user may enter (0700). It needs one of the four keys below."
        ),
        .init("store.key_file", .value(.file(.secret)), "Key that seals it: 32 bytes or more, taken as they are."),
        .init("store.passphrase_file", .value(.file(.secret)), "Passphrase in place of a key."),
        .init(
            "store.memory", .value(.boolean), defaultDescription: "true, with `path` false",
            "Keeps sessions in memory only: a restart forgets every login, which the log says."),
        .init("refresh", .section, "When access tokens are renewed."),
        .init(
            "refresh.at", .value(.portion), "65-75%", "The part of the lifetime in which the renewal lies, at random."),
        .init(
            "refresh.mandatory", .value(.duration(moment)), "60s",
            "Requests wait for the renewal in the last min(this, lifetime / 4)."),
        .init(
            "refresh.wait_max", .value(.duration(momentOrZero)), "5s", "A request waits at most this long for a token."),
        .init(
            "refresh.cooldown", .value(.duration(momentOrZero)), "10s",
            "Between two renewals of a session forced by the upstream."),
        .init("refresh.per_hour_max", .value(.integer(1...100_000)), "30", "Forced renewals of a session in an hour."),
        .init(
            "refresh.second_call_after", .value(.duration(moment)), or: ["none"], "2s",
            "A second call beside one without a response, while requests wait."),
        .init(
            "refresh.attempt_timeout", .value(.duration(.seconds(1)...(.seconds(300)))), "30s",
            "The time of a login or a renewal with all its steps."),
        .init("login", .section, "What happens at the start."),
        .init(
            "login.offline", .value(.choice(["cached", "never"])), "cached",
            "Whether stored tokens serve before one renewal has succeeded."),
        .init(
            "login.exit_on_refusal", .value(.boolean), "false",
            "Exits 77 once every configured user is refused at the start."),
        .init("login.exit_on_unreachable", .value(.boolean), "false", "Exits 75 if no first login is possible."),
        .init(
            "on_active_logout", .value(.choice(["none", "next"])), "none",
            "Which user is active after the active user has logged out."),
        .init("limits", .section, "Limits of the process; beyond them clients get an error response."),
        .init("limits.connections_max", .value(.integer(1...1_000_000)), "4096", "Client connections at once."),
        .init(
            "limits.connections_per_peer_max", .value(.integer(1...1_000_000)), or: ["none"], "none",
            "Client connections of one peer address; 503 `overloaded` beyond. Clients of unix sockets have none."),
        .init(
            "limits.requests_per_connection_max", .value(.integer(1...1_000_000_000)), or: ["none"], "none",
            "Requests on one client connection."),
        .init(
            "limits.header_bytes_max", .value(.size(1024...(1 << 20))), "64KiB",
            "Bytes of a request's fields, or of its trailers; one field may fill it; 431 beyond."),
        .init(
            "limits.header_fields_max", .value(.integer(8...4096)), "128",
            "Fields of a request, or of its trailers; 431 beyond."),
        .init(
            "limits.response_header_bytes_max", .value(.size(1024...(1 << 20))), "512KiB",
            "Bytes of a response's fields, or of its trailers; one field may fill it; 502 beyond."),
        .init(
            "limits.response_header_fields_max", .value(.integer(8...4096)), "1024",
            "Fields of a response, or of its trailers; 502 beyond."),
        .init(
            "limits.certificate_bytes_max", .value(.size((4 << 10)...(1 << 20))), "32KiB",
            "Bytes of the certificates of a TLS client or upstream, or of an upstream's request for one."),
        .init(
            "limits.handshakes_max", .value(.integer(8...100_000)), "512",
            "TLS handshakes of clients in progress, for each shard; for another one the oldest is closed."),
        .init(
            "limits.request_line_bytes_max", .value(.size(256...(1 << 20))), "16KiB",
            "Bytes of a request line; 414 beyond."),
        .init(
            "limits.header_timeout", .value(.duration(moment)), "10s",
            "A whole request head, from its first byte; 408 beyond."),
        .init("limits.idle_timeout", .value(.duration(moment)), "120s", "A kept-alive client without a byte."),
        .init(
            "limits.keepalive_idle", .value(.duration(probing)), or: ["none"], "30s",
            "A TCP connection of a client or an upstream without a byte; then the kernel probes it. Whole seconds."),
        .init(
            "limits.keepalive_interval", .value(.duration(probing)), "5s", "Between two probes. Whole seconds."),
        .init(
            "limits.keepalive_probes_max", .value(.integer(1...100)), "5",
            "Probes without a reply; then the peer is gone, and its connection ends."),
        .init(
            "limits.parked_requests_max", .value(.integer(0...1_000_000)), "1024",
            "Requests that wait for a token or an upstream connection; 503 `overloaded` beyond."),
        .init(
            "limits.buffer_bytes_max", .value(.size((1 << 20)...(1 << 40))), "64MiB",
            "Memory of all buffers together. The fuller it is, the smaller are the portions that are read. "
                + "Beyond 7/8 new requests get 503 `overloaded`; full, reading pauses."
        ),
        .init("http2", .section, "Connections of HTTP/2."),
        .init("http2.streams_max", .value(.integer(1...10_000)), "128", "Streams that a client may have open at once."),
        .init(
            "http2.stream_window", .value(.size((16 << 10)...(16 << 20))), "64KiB",
            "Bytes that may come on one stream before some have left on the other side."),
        .init(
            "http2.connection_window", .value(.size((64 << 10)...(1 << 30))), "16MiB",
            "The same of a connection; at least `streams_max` times `stream_window`."),
        .init(
            "http2.ping_after", .value(.duration(Duration.seconds(1)...Duration.seconds(3600))), "15s",
            "An upstream that is silent so long while streams are open is asked by a PING whether it is there."),
        .init(
            "http2.ping_timeout", .value(.duration(Duration.milliseconds(100)...Duration.seconds(600))), "10s",
            "How long it may take to reply; then its connection ends."),
        .init(
            "http2.max_age", .value(.duration(long)), or: ["none"], "none",
            "Age from which a connection to an upstream takes no further request, so that new ones reach all of its servers."
        ),
        .init(
            "http2.requests_max", .value(.integer(1...1_000_000_000)), or: ["none"], "none",
            "Requests on one connection to an upstream."),
        .init("upstream_dns", .section, "Names of upstreams."),
        .init("upstream_dns.refresh", .value(.duration(long)), "30s", "How long resolved addresses are used."),
        .init(
            "upstream_dns.timeout", .value(.duration(Duration.seconds(1)...Duration.seconds(60))), "5s",
            "How long a request waits for a lookup; 504 beyond. Each name server has two fifths of it, and one try."),
        .init(
            "login_required_status", .value(.choice(["503", "401", "502"])), "503",
            "Status of the problem `login-required`."),
        .init("log", .section, "The log on standard error."),
        .init(
            "log.level", .value(.choice(["trace", "debug", "info", "notice", "warning", "error", "critical"])), "info",
            "What is logged."),
        .init(
            "log.format", .value(.choice(["json", "text"])), defaultDescription: "`text` on a terminal, else `json`",
            "One JSON object per line, or a line of text for a terminal."),
        .init("log.access", .value(.boolean), "true", "One line for each request."),
        .init("shutdown", .section, "How Lanyard ends."),
        .init(
            "shutdown.drain_min", .value(.duration(momentOrZero)), "0s", "Not ready any more, but everything is served."
        ),
        .init(
            "shutdown.drain_max", .value(.duration(momentOrZero)), "30s", "Requests in progress have this long to end."),
        .init("shutdown.exit_zero_on_sigterm", .value(.boolean), "false", "Exits 0 in place of 143."),
        .init("shutdown.logout", .value(.boolean), "false", "Logs all users out at the end."),
        .init(
            "sandbox", .value(.choice(["auto", "off", "require"])), "auto", "Landlock and seccomp after the start."),
        .init(
            "user", .value(.text), or: ["none"], "none", "Started as root: becomes this user once everything is bound."),
        .init("shards", .value(.integer(1...64)), or: ["auto"], "auto", "Threads that serve requests."),
    ]
}
