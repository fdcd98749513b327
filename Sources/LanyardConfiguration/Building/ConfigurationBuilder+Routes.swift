import LanyardFoundations
import LanyardSettings

/// `routes`.
extension ConfigurationBuilder {
    mutating func readRoutes(_ top: ConfigurationSection) {
        guard let list = top.node["routes"], case .sequence(let elements) = list.content else { return }
        if elements.isEmpty {
            reportError(list.place, "routes is empty", remedy: "add a route with at least an upstream")
        }
        warnOfMissingActiveUser(top, list)
        var lines: [String: ConfigurationPlace] = [:]
        var matches: [Match: String] = [:]
        for (index, element) in elements.enumerated() {
            guard case .mapping = element.content else { continue }
            let section = ConfigurationSection(element)
            let shown = "routes[\(index)]"
            let name = section.text("name") ?? (elements.count == 1 ? "default" : "")
            if name.isEmpty, !section.has("name"), !element.hasUnread {
                reportError(
                    element.place, "missing key \"\(shown).name\"", remedy: "each of several routes needs a name")
            }
            if let first = lines[name], !name.isEmpty {
                reportError(
                    section.place("name"), "\(shown).name: \"\(name)\" is taken at \(first)",
                    remedy: "choose another name")
            }
            lines[name] = section.place("name")
            if let route = route(section, top, name: name, shown: shown) {
                checkOverlap(route.route, section, &matches, shown: shown)
                configuration.routes.append(route)
            }
        }
        checkVariantCounts(list)
    }

    private mutating func warnOfMissingActiveUser(_ top: ConfigurationSection, _ routes: ConfigurationNode) {
        guard userNames.all.isEmpty, !userNames.isPartial, !top.node.hasUnread, top.node["active_user"] == nil,
            routes.elements.contains(where: { $0["user"] == nil && !$0.hasUnread })
        else { return }
        reportWarning(
            routes.place, "routes follow the active user, and no user is configured",
            remedy: "add users, or requests get 503 no-active-user")
    }

    /// Reports a route's user that is not configured. With the admin API or a store it is a warning: the admin API may add the user, and
    /// the store keeps users added before. Otherwise the route can never work.
    private mutating func reportUnknownUser(_ user: String, _ section: ConfigurationSection, shown: String) {
        let store = ConfigurationSection(tree).section("store")
        let message = "\(shown).user: no user \"\(user)\" is configured"
        let suggestion = userNames.suggestion(for: user)
        if asksForToken(section) {
            reportError(
                section.place("user"), message + ", and one that is added later may have a single access token",
                remedy: suggestion ?? "add it below users, or remove token")
        } else if configuration.admin != nil || store.has("path") || store.isUnread("path") {
            reportWarning(section.place("user"), message, remedy: suggestion ?? "requests get 503 until it exists")
        } else {
            reportError(
                section.place("user"), message,
                remedy: suggestion ?? "add it below users, or turn the admin API on to add it there")
        }
    }

    private mutating func readUpstream(_ text: String) -> URLText.Upstream? {
        if let known = upstreams[text] { return known }
        let upstream = try? URLText.upstream(text)
        upstreams[text] = upstream
        return upstream
    }

    private mutating func route(
        _ section: ConfigurationSection, _ top: ConfigurationSection, name: String, shown: String
    ) -> Configuration.Route? {
        var route = RouteSettings(name: name)
        readMatch(section, &route, shown: shown)
        readForwarding(section, &route, shown: shown)
        route.user = section.text("user")
        if let user = route.user, userNames.isUnknown(user) {
            reportUnknownUser(user, section, shown: shown)
        }
        route.token = token(section, of: route.user, shown: shown)
        guard let target = section.text("upstream").flatMap({ readUpstream($0) }) else { return nil }
        route.upstreamPath = target.path
        var upstream = UpstreamSettings(endpoint: target.endpoint, authority: target.authority)
        upstream.isFullyQualified = target.isFullyQualified
        upstream.zone = target.zone
        readTimeouts(section.section("timeouts"), &upstream.timeouts, shown: shown)
        section.fill(&upstream.connectionsMax, "connections_max")
        upstream.sharesConnections = section.text("connections") == "shared"
        section.fill(&upstream.httpVersion, "protocol")
        upstream.http2 = configuration.limits.http2
        section.fill(&upstream.allowsLinkLocal, "allow_link_local")
        section.fill(&upstream.allowsPlain, "unsafe_plain")
        readTLS(section, &upstream, shown: shown)
        top.section("upstream_dns").fill(&upstream.dns.refresh, "refresh")
        top.section("upstream_dns").fill(&upstream.dns.timeout, "timeout")
        top.section("limits").fill(&upstream.tls.certificateBytesMax, "certificate_bytes_max")
        checkReach(section, upstream, shown: shown)
        let readsVariables = readProxy(section, &upstream, of: route, shown: shown)
        return Configuration.Route(route: route, upstream: upstream, readsProxyVariables: readsVariables)
    }

    private mutating func readMatch(_ section: ConfigurationSection, _ route: inout RouteSettings, shown: String) {
        let match = section.section("match")
        if let hosts = match.texts("hosts") {
            route.hosts = hosts.compactMap { text in
                AddressText.listedHost(text).map { AddressText.authority(host: $0.host, port: nil) }
            }
        }
        if let path = match.text("path") { route.path = path }
        warnOfStar(match, shown: "\(shown).match")
        match.fill(&route.methods, "methods")
        warnOfUnmatched(match, route.methods, shown: "\(shown).match")
        for (index, element) in (section.node["deny"]?.elements ?? []).enumerated() {
            let denial = ConfigurationSection(element)
            guard let path = denial.text("path") else { continue }
            warnOfStar(denial, shown: "\(shown).deny[\(index)]")
            route.deny.append(.init(path: path, methods: denial.texts("methods") ?? []))
        }
    }

    /// Warns of a path that other programs would read as a pattern.
    private mutating func warnOfStar(_ section: ConfigurationSection, shown: String) {
        guard let path = section.text("path"), path.contains("*") else { return }
        let prefix = path.prefix { $0 != "*" }
        reportWarning(
            section.place("path"),
            "\(shown).path: \"\(path)\" is no pattern: only paths that have the character * there begin with it",
            remedy: "a path is a prefix; write \(prefix) for all that begins so")
    }

    /// Warns of a path and of methods for which no request comes to the route (http-requests.md 1.9, 2.3).
    private mutating func warnOfUnmatched(_ match: ConfigurationSection, _ methods: [String], shown: String) {
        if let path = match.text("path"), path.contains(";") {
            reportWarning(
                match.place("path"),
                "\(shown).path: \"\(path)\" matches nothing: a path that begins so has two meanings, and is refused",
                remedy: "write \(path.prefix { $0 != ";" }), which matches with and without parameters")
        }
        for method in methods where FieldText.refusedMethods.contains(method) {
            reportWarning(
                match.place("methods"),
                "\(shown).methods: \(method) matches nothing: Lanyard refuses it on every route",
                remedy: "remove it")
        }
    }

    private mutating func readForwarding(_ section: ConfigurationSection, _ route: inout RouteSettings, shown: String) {
        let inject = section.section("inject")
        if let header = inject.text("header") { route.injectHeader = header }
        if let cut = inject.text("format").flatMap({ FieldText.cut(format: $0) }) {
            (route.injectPrefix, route.injectSuffix) = cut
        }
        section.fill(&route.clientAuthorization, "client_authorization")
        if let statuses = section.texts("reauthenticate_on") {
            route.refusals.statuses = statuses.compactMap { ConfigurationText.integer($0) }
            route.refusals.calls = statuses.contains("grpc-16")
        }
        section.fill(&route.replayBodyMax, "replay_body_max")
        switch section.text("host") {
        case "upstream": route.host = .upstream
        case "client": route.host = .client
        default: if let value = section.section("host").text("value") { route.host = .value(value) }
        }
        readFields(section, &route, shown: shown)
        readRequestID(section, &route, shown: shown)
        section.fill(&route.bodyBytesMax, "body_bytes_max")
        section.fill(&route.forwarded, "forwarded")
        section.fill(&route.redirects, "redirects")
        section.section("redirects").fill(&route.redirects, "mode")
        section.section("redirects").fill(&route.redirectFields, "fields")
        section.fill(&route.cookies, "cookies")
        section.fill(&route.upgrades, "upgrades")
        section.fill(&route.paths, "paths")
        section.fill(&route.errors, "errors")
        section.fill(&route.unauthorized, "unauthorized")
        route.waitMax = section.text("wait_max").flatMap(ConfigurationText.duration)
        section.fill(&route.upgradedMaxAge, "upgraded_max_age")
        if let events = section.texts("close_upgraded_on") {
            route.closeUpgradedOn = events.compactMap(RouteSettings.TunnelCloser.init(rawValue:))
        }
        if let events = section.texts("close_streams_on") {
            route.closeStreamsOn = events.compactMap(RouteSettings.TunnelCloser.init(rawValue:))
        }
    }

    /// `set_headers`.
    private mutating func readFields(_ section: ConfigurationSection, _ route: inout RouteSettings, shown: String) {
        let injected = isInjectUnread(section) ? nil : FieldText.canonical(route.injectHeader)
        for entry in section.node["set_headers"]?.entries ?? [] {
            if FieldText.canonical(entry.key) == injected, entry.value.content != .invalid {
                reportError(
                    entry.place, "\(shown).set_headers: \(entry.key) is the field that carries the token",
                    remedy: "remove it")
            }
            if let text = entry.value.text {
                route.setHeaders.append(.init(name: entry.key, value: text))
            } else if case .mapping = entry.value.content,
                let path = secret(
                    ConfigurationSection(entry.value), "file", shown: "\(shown).set_headers.\(entry.key)", sent: .line,
                    meanwhile: "requests of the route are refused")
            {
                route.setHeaders.append(.init(name: entry.key, file: path))
            }
        }
    }

    /// Whether the field that carries the token is unknown, because its key could not be read.
    private func isInjectUnread(_ route: ConfigurationSection) -> Bool {
        route.isUnread("inject") || route.section("inject").isUnread("header")
    }

    private mutating func readRequestID(_ section: ConfigurationSection, _ route: inout RouteSettings, shown: String) {
        guard let header = section.text("request_id_header"), header != "none" else { return }
        let taken = (isInjectUnread(section) ? [] : [route.injectHeader]) + route.setHeaders.map(\.name)
        if let other = taken.first(where: { FieldText.canonical($0) == FieldText.canonical(header) }) {
            reportError(
                section.place("request_id_header"), "\(shown).request_id_header: \(header) is set already, as \(other)",
                remedy: "choose another field")
        }
        route.requestIDHeader = header
    }

    private mutating func readTimeouts(
        _ section: ConfigurationSection, _ timeouts: inout UpstreamSettings.Timeouts, shown: String
    ) {
        section.fill(&timeouts.connect, "connect")
        section.fill(&timeouts.connectAll, "connect_all")
        section.fill(&timeouts.responseHeader, "response_header")
        section.fill(&timeouts.requestIdle, "request_idle")
        section.fill(&timeouts.responseIdle, "response_idle")
        section.fill(&timeouts.write, "write")
        section.fill(&timeouts.upgradedIdle, "upgraded_idle")
        section.fill(&timeouts.upgradedHalfClosed, "upgraded_half_closed")
        if timeouts.connectAll < timeouts.connect, section.text("connect_all") != nil, !section.isUnread("connect") {
            reportWarning(
                section.place("connect_all"),
                "\(shown).timeouts.connect_all is shorter than connect, which then has no effect",
                remedy: "make connect_all the longer one")
        }
    }

    private mutating func readTLS(_ section: ConfigurationSection, _ upstream: inout UpstreamSettings, shown: String) {
        guard section.has("tls") else { return }
        let tls = section.section("tls")
        let shown = "\(shown).tls"
        upstream.tls.caFile = certificates(tls, "ca_file", shown: shown)
        upstream.tls.certificateFile = certificates(tls, "certificate_file", shown: shown)
        upstream.tls.keyFile = requiredFile(tls, "key_file", shown: shown, isPrivate: true)
        upstream.tls.serverName = tls.text("server_name")
        tls.fill(&upstream.tls.skipsVerification, "unsafe_skip_verify")
        if tls.has("certificate_file") != tls.has("key_file"), !tls.node.hasUnread {
            reportError(
                tls.node.place, "\(shown): certificate_file and key_file belong together", remedy: "give both or none")
        }
        guard case .tcp(_, _, tls: true) = upstream.endpoint else {
            // The defaults alone are what `--print-config` writes.
            guard upstream.tls != UpstreamSettings.TLS() else { return }
            reportWarning(
                section.place("tls"), "\(shown) is ignored: the upstream does not speak TLS",
                remedy: "use https, or remove tls")
            return
        }
        if upstream.tls.skipsVerification {
            reportWarning(
                tls.place("unsafe_skip_verify"),
                "\(shown).unsafe_skip_verify: tokens go to any server that responds in the upstream's place",
                remedy: "name its authority with ca_file")
        }
    }

    /// Refuses plain http to other machines and link-local upstreams (metadata services), unless the configuration allows them.
    private mutating func checkReach(_ section: ConfigurationSection, _ upstream: UpstreamSettings, shown: String) {
        guard case .tcp(let host, _, let tls) = upstream.endpoint else { return }
        let reach = AddressText.reach(host)
        let place = section.place("upstream")
        if !tls, reach != .loopback, !upstream.allowsPlain, !section.isUnread("unsafe_plain") {
            reportError(
                place, "\(shown).upstream: plain http would show tokens on the network path to \(host)",
                remedy: place.adding("unsafe_plain: true", to: "routes[]", flag: "--unsafe-plain")
                    + " if that way is safe")
        }
        if reach == .linkLocal, !upstream.allowsLinkLocal, !section.isUnread("allow_link_local") {
            reportError(
                place, "\(shown).upstream: \(host) is an address of metadata services, such as link-local ones",
                remedy: place.adding("allow_link_local: true", to: "routes[]") + " if that is intended")
        } else if upstream.zone == nil, let error = AddressText.missingZone(of: host, in: host) {
            reportError(place, "\(shown).upstream: \(error.message)", remedy: error.remedy)
        }
    }

    /// The requests that a route matches.
    private struct Match: Hashable {
        let path: Substring
        let hosts: Set<String>
        let methods: Set<String>

        init(_ route: RouteSettings) {
            path = route.path.hasSuffix("/") ? route.path.dropLast() : route.path[...]
            hosts = Set(route.hosts)
            methods = Set(route.methods)
        }
    }

    /// Reports a route that matches the same requests as an earlier one: it would never be used.
    ///
    /// - Parameter matches: the matches of earlier routes, each with the name of the first route.
    private mutating func checkOverlap(
        _ route: RouteSettings, _ section: ConfigurationSection, _ matches: inout [Match: String], shown: String
    ) {
        let given = section.section("match")
        guard !section.isUnread("match"), !["path", "hosts", "methods"].contains(where: given.isUnread) else { return }
        let match = Match(route)
        guard let duplicate = matches[match] else {
            matches[match] = route.name
            return
        }
        let place = section.has("match") ? section.place("match") : section.node.place
        reportError(
            place, "\(shown) matches the same requests as \"\(duplicate)\"",
            remedy: "give them different paths, hosts or methods")
    }
}
