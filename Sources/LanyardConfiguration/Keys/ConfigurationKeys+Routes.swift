extension ConfigurationKeys {
    static let routes: [ConfigurationKey] = [
        .init(
            "routes", .sections, required: true,
            "What decides upstream and user of a request: first the host, then the longest path."),
        .init(
            "routes[].name", .value(.name), defaultDescription: "`default` for a single route; several need names",
            "The route's name in logs and metrics."),
        .init("routes[].match", .section, "Which requests the route takes."),
        .init("routes[].match.hosts", .values(.hostName), "[]", "Host names without port; empty is any."),
        .init("routes[].match.path", .value(.pathPrefix), "/", "Path prefix, whole segments."),
        .init("routes[].match.methods", .values(.method), "[]", "Methods; empty is any."),
        .init("routes[].deny", .sections, "What the route refuses with 403 `denied-by-route`."),
        .init("routes[].deny[].path", .value(.pathPrefix), required: true, "Path prefix, whole segments."),
        .init(
            "routes[].deny[].methods", .values(.method), "[]",
            "Methods; empty is all. COPY and MOVE also count as GET, PUT and DELETE, where they do the same."),
        .init(
            "routes[].upstream", .value(.upstream), required: true,
            "Where requests go. `http://h:1/x`: `/x` replaces the matched prefix, and so does the `/` of `http://h:1/`. "
                + "`http://h:1`: the path is unchanged."),
        .init(
            "routes[].protocol", .value(.choice(["auto", "http1", "http2"])), "auto",
            "Version of HTTP: `auto` is HTTP/2 if the upstream agrees on it by ALPN, without TLS HTTP/1.1; `http2` without TLS begins with "
                + "HTTP/2 at once."),
        .init("routes[].user", .value(.name), defaultDescription: "the active user", "The user whose token is sent."),
        .init(
            "routes[].token", .section,
            "OAuth 2.0: which of the user's access tokens is sent. The default is the one that a login brings."),
        .init("routes[].token.audience", .value(.text), or: ["none"], "none", "It is asked for with this `audience`."),
        .init(
            "routes[].token.resource", .values(.text), "[]",
            "It is asked for with these `resource` fields (RFC 8707): absolute URIs."),
        .init("routes[].token.scopes", .values(.text), "[]", "It is asked for with these scopes."),
        .init("routes[].inject", .section, "How the token is sent."),
        .init("routes[].inject.header", .value(.fieldName), "Authorization", "The field."),
        .init("routes[].inject.format", .value(.injectFormat), "Bearer {token}", "Its value."),
        .init(
            "routes[].client_authorization", .value(.choice(["replace", "reject", "pass"])), "replace",
            "What to do if the client sent that field itself."),
        .init(
            "routes[].reauthenticate_on", .values(.refusal), "[401, grpc-16]",
            "Statuses of the upstream that mean \"token refused\"; `grpc-16` is that of a call of gRPC without a message."
        ),
        .init(
            "routes[].replay_body_max", .value(.size(0...(1 << 30))), "64KiB",
            "Bytes of a request body held for a replay."),
        .init("routes[].host", .section, or: ["upstream", "client"], "upstream", "Which `Host` the upstream sees."),
        .init("routes[].host.value", .value(.authority), required: true, "This one."),
        .init("routes[].set_headers", .fields, "Fields for the upstream, in place of a client's own."),
        .init(
            "routes[].set_headers.*.file", .value(.file(.secret)), required: true,
            "The file with the value; read again when it changes."),
        .init(
            "routes[].request_id_header", .value(.fieldName), or: ["none"], "none",
            "A client's own id of 1 to 64 letters, digits, `.`, `_` and `-`, else ours, goes upstream in this field."),
        .init(
            "routes[].body_bytes_max", .value(.size(0...(1 << 60))), or: ["none"], "none",
            "Bytes of a request body; 413 beyond."),
        .init(
            "routes[].forwarded", .value(.choice(["drop", "pass", "append", "reject"])), "drop",
            "`Forwarded`, `X-Forwarded-*` and `X-Real-IP` of clients."),
        .init(
            "routes[].redirects", .section, or: ["rewrite", "pass"], "rewrite",
            "References with the upstream's own origin, in `Location`, `Link` and other fields, become client-side addresses."
        ),
        .init("routes[].redirects.mode", .value(.choice(["rewrite", "pass"])), "rewrite", "The same."),
        .init(
            "routes[].redirects.fields", .values(.fieldName), "[]",
            "Further fields of responses whose value is one reference as a whole."),
        .init(
            "routes[].cookies", .value(.choice(["rewrite", "pass"])), "rewrite",
            "So do a cookie's `Domain` that is the upstream's host and its `Path` below a mapped prefix. `Secure` of an https upstream is "
                + "removed for clients without TLS."),
        .init(
            "routes[].errors", .value(.choice(["auto", "problem", "jsonrpc"])), "auto",
            "Lanyard's own responses to a POST: problems, or errors of JSON-RPC for clients of MCP; `auto` is the latter for requests with "
                + "an `Mcp-*` field, which the first one of a client has not."),
        .init(
            "routes[].wait_max", .value(.duration(momentOrZero)), defaultDescription: "`refresh.wait_max`",
            "A request waits at most this long for a token; if it is given, also while the identity service gives none."
        ),
        .init(
            "routes[].unauthorized", .value(.choice(["pass", "503"])), "pass",
            "What a client gets in place of a 401 that no other token has mended: that 401, or the problem `token-refused` (503), so that "
                + "an SDK begins no login of its own."),
        .init(
            "routes[].upgrades", .values(.upgrade), "[websocket]", "Protocols that may be upgraded to; `[]` is none."),
        .init(
            "routes[].paths", .value(.choice(["lenient", "strict"])), "lenient",
            "`strict` refuses every path that two readers could take differently."),
        .init(
            "routes[].proxy", .section, or: ["none", "environment"], "none",
            "Outbound proxy to the upstream: CONNECT for https, absolute form for http. `environment`: as `http_proxy`, `https_proxy`, "
                + "`all_proxy` and `no_proxy` say."),
        .init(
            "routes[].proxy.url", .value(.proxy), required: true, "Where it is, such as `http://proxy.internal:3128`."),
        .init(
            "routes[].proxy.credentials_file", .value(.file(.secret)),
            "`user:password` for a proxy that asks for a login (Basic)."),
        .init("routes[].tls", .section, "TLS towards the upstream."),
        .init(
            "routes[].tls.ca_file", .value(.file(.needed)), defaultDescription: "the system's", "CA certificates, PEM."),
        .init(
            "routes[].tls.server_name", .value(.hostName), defaultDescription: "the upstream's host",
            "The name that its certificate must show."),
        .init("routes[].tls.certificate_file", .value(.file(.needed)), "Client certificate, PEM."),
        .init("routes[].tls.key_file", .value(.file(.needed)), "Its key, PEM."),
        .init("routes[].tls.unsafe_skip_verify", .value(.boolean), "false", "Believes every certificate."),
        .init(
            "routes[].unsafe_plain", .value(.boolean), "false",
            "Sends tokens over plain http to an address that is not loopback or a unix socket."),
        .init(
            "routes[].allow_link_local", .value(.boolean), "false",
            "Dials 169.254.0.0/16, fe80::/10, and the other fixed addresses of metadata services: 100.100.100.200, "
                + "168.63.129.16, fd00:ec2::254, fd20:ce::254."),
        .init("routes[].timeouts", .section, "How long each step may take."),
        .init("routes[].timeouts.connect", .value(.duration(moment)), "5s", "Connecting to one address."),
        .init("routes[].timeouts.connect_all", .value(.duration(moment)), "10s", "Connecting, all addresses together."),
        .init(
            "routes[].timeouts.response_header", .value(.duration(moment)), "300s",
            "From the last request byte, or the latest interim response, to the whole response head."),
        .init("routes[].timeouts.request_idle", .value(.duration(moment)), "30s", "A request body without a byte."),
        .init(
            "routes[].timeouts.response_idle", .value(.duration(momentOrZero)), or: ["none"], "300s",
            "A response body without a byte; `0s` is none."),
        .init("routes[].timeouts.write", .value(.duration(moment)), "60s", "A side that takes no byte of ours."),
        .init(
            "routes[].timeouts.upgraded_idle", .value(.duration(moment)), "1h",
            "An upgraded connection without a byte."),
        .init(
            "routes[].timeouts.upgraded_half_closed", .value(.duration(moment)), "30s",
            "The same once one side has ended, if it is less than `upgraded_idle`."),
        .init(
            "routes[].upgraded_max_age", .value(.duration(long)), or: ["none"], "none",
            "Closes upgraded connections after this long."),
        .init(
            "routes[].close_upgraded_on", .values(.choice(["logout", "switch"])), "[logout]",
            "What closes upgraded connections: the end of the user's session (`logout`), another active user on a route without a user "
                + "(`switch`); another account of the user is both. `[]` is nothing."
        ),
        .init(
            "routes[].close_streams_on", .values(.choice(["logout", "switch"])), "[]",
            "What cuts responses in progress, such as event streams and downloads: as `close_upgraded_on`."),
        .init(
            "routes[].connections_max", .value(.integer(1...1_000_000)), "1024",
            "Connections to this upstream, all shards together; more requests wait up to `timeouts.connect`."),
        .init(
            "routes[].connections", .value(.choice(["per_user", "shared"])), "per_user",
            "Whose requests a connection carries: those of one user and account (`per_user`), or those of all users (`shared`), where "
                + "the upstream authenticates each request and not the connection."),
    ]
}
