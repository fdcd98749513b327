/// The metadata of a family of samples in `/metrics`: its type, its unit and a sentence.
package struct MetricFamily: Equatable, Sendable {
    enum Kind: String, Sendable { case counter, gauge, histogram, info }

    /// Without `_total` or `_info`, as OpenMetrics names families.
    package var name: String
    var kind: Kind
    var help: String

    init(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        self.kind = kind
        self.help = help
    }

    /// OpenMetrics requires the unit as the name's last word, and nothing else as a unit.
    var unit: String? { ["seconds", "bytes"].first { name.hasSuffix("_" + $0) } }

    /// Every family that Lanyard knows, in the order of the page.
    package static let all: [MetricFamily] = process + program + sessions + requests + upstreams

    private static let process: [MetricFamily] = [
        .init("process_cpu_seconds", .counter, "CPU time used, user and system."),
        .init("process_start_time_seconds", .gauge, "When the process started, since 1970."),
        .init("process_resident_memory_bytes", .gauge, "Resident memory."),
        .init("process_proportional_memory_bytes", .gauge, "Resident memory, shared pages divided among their users."),
        .init("process_virtual_memory_bytes", .gauge, "Virtual memory."),
        .init("process_threads", .gauge, "Threads."),
        .init("process_open_fds", .gauge, "Open descriptors."),
        .init("process_max_fds", .gauge, "The limit of open descriptors."),
    ]

    private static let program: [MetricFamily] = [
        .init("lanyard_build", .info, "Version and commit of this build."),
        .init("lanyard_config_reloads", .counter, "Reloads of the configuration, by result."),
        .init(
            "lanyard_config_last_reload_success_timestamp_seconds", .gauge,
            "When a configuration was last loaded, the start included."),
        .init(
            "lanyard_config_reload_running_seconds", .gauge,
            "For how long the reload in progress has been running; 0: there is none."),
        .init(
            "lanyard_metrics_series_left_out", .gauge,
            "Series of users and routes that are not on this page, because there are too many."),
        .init("lanyard_log_lines_dropped", .counter, "Log lines dropped because the reader was slow or gone."),
        .init("lanyard_internal_errors", .counter, "Internal errors of Lanyard."),
        .init("lanyard_admin_refused", .counter, "Admin calls that were refused."),
        .init("lanyard_tokens_issued", .counter, "Access tokens that brokers have given to callers."),
        .init("lanyard_buffer_bytes", .gauge, "Memory in buffers of requests and responses."),
        .init("lanyard_store_writes", .counter, "Writes of the session store."),
        .init("lanyard_clock_skew_seconds", .gauge, "How far the identity service's clock is ahead of ours."),
        .init("lanyard_clock_jumps", .counter, "Jumps of the wall clock, resumes from suspend included."),
        .init("lanyard_dns_lookups", .counter, "Lookups of upstream names, by result."),
        .init("lanyard_tls_certificate_expiry_timestamp_seconds", .gauge, "When a certificate in use ends."),
        .init("lanyard_health_connections", .gauge, "Open connections of the health listener."),
    ]

    private static let sessions: [MetricFamily] = [
        .init("lanyard_session_state", .gauge, "1 for the state that a user's session is in, 0 for the others."),
        .init("lanyard_session_action", .gauge, "1 for who must act on a user's session, 0 for the others."),
        .init("lanyard_active_user", .info, "The user of requests on routes that pin no user."),
        .init("lanyard_access_token_expiry_timestamp_seconds", .gauge, "When the current access token ends."),
        .init("lanyard_refresh_token_expiry_timestamp_seconds", .gauge, "When the refresh token ends, if it says so."),
        .init("lanyard_next_refresh_timestamp_seconds", .gauge, "When the next refresh is due."),
        .init("lanyard_refresh_attempts", .counter, "Calls for a new access token."),
        .init("lanyard_refresh_denied", .counter, "Refreshes that an upstream's refusal would have forced too soon."),
        .init("lanyard_refresh_duration_seconds", .histogram, "How long such a call took."),
        .init("lanyard_refresh_inflight", .gauge, "Such calls in progress."),
        .init("lanyard_login_attempts", .counter, "Logins."),
        .init("lanyard_variant_state", .gauge, "1 for the state of the access token that a route asks for."),
        .init(
            "lanyard_variant_token_expiry_timestamp_seconds", .gauge,
            "When the access token that a route asks for ends."),
        .init("lanyard_variant_fetches", .counter, "Calls for the access token that a route asks for."),
    ]

    private static let requests: [MetricFamily] = [
        .init("lanyard_requests", .counter, "Requests, by route, class of status and source of the response."),
        .init("lanyard_request_duration_seconds", .histogram, "From a request's first byte to its response's last."),
        .init("lanyard_rejected_requests", .counter, "Requests that Lanyard refused, by reason."),
        .init("lanyard_tls_handshakes", .counter, "TLS handshakes with clients, by result."),
        .init("lanyard_parked_requests", .gauge, "Requests that wait for a token or an upstream connection."),
        .init("lanyard_client_connections", .gauge, "Open connections of clients."),
        .init("lanyard_upgraded_connections", .gauge, "Connections that were upgraded to another protocol."),
        .init("lanyard_dropped_fields", .counter, "Fields of requests that were not forwarded, by kind."),
        .init("lanyard_replays", .counter, "Requests with a 401 response of the upstream, by outcome of the replay."),
        .init("lanyard_upstream_tls_failures", .counter, "Upstream connections that TLS has prevented or ended."),
        .init("lanyard_upstream_unauthorized", .counter, "Upstream responses that mean: token refused."),
    ]

    private static let upstreams: [MetricFamily] = [
        .init(
            "lanyard_upstream_connect_seconds", .histogram,
            "Time to establish a connection to the upstream, without the lookup of its name."),
        .init("lanyard_upstream_duration_seconds", .histogram, "From a request's last byte to its response's head."),
        .init("lanyard_upstream_connections", .gauge, "Connections to upstreams, by state."),
        .init("lanyard_upstream_idle_evictions", .counter, "Idle connections closed to leave descriptors, by reason."),
        .init("lanyard_http2_connections", .gauge, "Connections of HTTP/2, by side."),
        .init("lanyard_http2_open_streams", .gauge, "Open streams of HTTP/2, by side."),
        .init("lanyard_http2_streams", .counter, "Streams of HTTP/2, by side."),
        .init("lanyard_http2_resets", .counter, "Streams that the peer has reset, or that were refused, by side."),
        .init(
            "lanyard_http2_limits_passed", .counter, "Connections of HTTP/2 that a limit has ended, by side and limit."),
        .init(
            "lanyard_upstream_http2_ends", .counter, "Connections of HTTP/2 to upstreams that have ended by an error."),
        .init("lanyard_upstream_waits", .counter, "Requests that waited for an upstream connection."),
        .init("lanyard_route_breaker_open", .gauge, "1 while a route's upstream keeps refusing fresh tokens."),
    ]
}
