import LanyardFoundations
import LanyardSettings

/// `listeners`, `health` and `admin`.
extension ConfigurationBuilder {
    mutating func readListeners(_ top: ConfigurationSection) {
        guard let list = top.node["listeners"] else { return }
        if case .sequence([]) = list.content {
            reportError(list.place, "listeners is empty", remedy: "remove it for 127.0.0.1:7400, or add an address")
        }
        for (index, element) in list.elements.enumerated() {
            let section = ConfigurationSection(element)
            if let listener = listener(section, top.section("limits"), shown: "listeners[\(index)]") {
                configuration.listeners.append(listener)
            }
        }
    }

    /// - Parameter isBroker: its own rows say who may call (`readBrokers`).
    mutating func listener(
        _ section: ConfigurationSection, _ limits: ConfigurationSection, shown: String, ofBroker isBroker: Bool = false
    ) -> ListenerSettings? {
        guard let text = section.text("address"), let address = try? AddressText.listenAddress(text) else { return nil }
        var listener = ListenerSettings(address: address)
        section.fill(&listener.allowedOrigins, "allowed_origins")
        section.fill(&listener.isUnsafe, "unsafe")
        if let hosts = section.texts("allowed_hosts") {
            let defaultPort: UInt16 = section.has("tls") ? 443 : 80
            listener.allowedHosts = hosts.compactMap { Self.allowedHost($0, defaultPort: defaultPort) }
        }
        if let names = section.texts("protocols") {
            listener.protocols = ListenerSettings.Protocols(
                http1: names.contains("http1"), http2: names.contains("http2"))
            if case .sequence([])? = section.node["protocols"]?.content {
                reportError(
                    section.place("protocols"), "\(shown).protocols is empty", remedy: "remove it for all protocols")
            }
        }
        readWebSocket(&listener, section, shown: shown)
        listener.tls = tls(section, shown: shown)
        if var tls = listener.tls {
            limits.fill(&tls.certificateBytesMax, "certificate_bytes_max")
            if let protocols = listener.protocols { tls.protocols = protocols }
            listener.tls = tls
        }
        if let mode = section.text("socket_mode").flatMap(ConfigurationText.mode) { listener.socketMode = mode }
        readCallers(&listener, section, shown: shown)
        switch address {
        case .tcp(let host, let port):
            checkTCPAddress(host, port, listener, section, shown: shown, isOpen: !isBroker)
        case .unix: checkUnixSocket(listener, section, shown: shown, isOpen: !isBroker)
        case .activated: checkActivatedSocket(section, shown: shown)
        }
        return listener
    }

    /// `websocket_over_http2`, which needs clients of HTTP/2.
    private mutating func readWebSocket(
        _ listener: inout ListenerSettings, _ section: ConfigurationSection, shown: String
    ) {
        section.fill(&listener.bridgesWebSocket, "websocket_over_http2")
        guard listener.bridgesWebSocket, !section.isUnread("protocols") else { return }
        let place = section.place("websocket_over_http2")
        var speaksHTTP2 = true
        if let protocols = listener.protocols {
            speaksHTTP2 = protocols.http2
        } else if case .tcp(let host, _) = listener.address, !section.has("tls") {
            speaksHTTP2 = AddressText.reach(host) == .loopback
        }
        guard !speaksHTTP2 else { return }
        reportError(
            place, "\(shown).websocket_over_http2: clients of this listener do not speak HTTP/2",
            remedy:
                "\(place.adding("http2 to protocols", to: "listeners[]", flag: "--protocols")), or remove websocket_over_http2"
        )
    }

    /// `capability_file`, `required_header` and `peers`: who may call.
    private mutating func readCallers(
        _ listener: inout ListenerSettings, _ section: ConfigurationSection, shown: String
    ) {
        if section.has("capability_file") || section.has("capability_credential") {
            listener.capabilityFile = secret(
                section, "capability_file", shown: shown, isOfField: true, meanwhile: "every request on it is refused")
        }
        listener.requiredHeader = section.text("required_header")
        guard section.has("peers") else { return }
        let peers = section.section("peers")
        let listed = ListenerSettings.Peers(
            uids: (peers.texts("uids") ?? []).compactMap(UInt32.init),
            gids: (peers.texts("gids") ?? []).compactMap(UInt32.init))
        // Both empty are the defaults, which `--print-config` writes.
        guard listed != ListenerSettings.Peers() else { return }
        listener.peers = listed
        if case .tcp = listener.address {
            reportError(
                section.place("peers"),
                "\(shown).peers: \(listener.address) is not a unix socket, so this restricts no client",
                remedy: "use unix:/path, or capability_file in place of peers")
        }
    }

    /// nil: there is no `tls`, or an error in it. What the files hold is checked when they are read (`ListenerTLSFiles`).
    private mutating func tls(_ listener: ConfigurationSection, shown: String) -> ListenerSettings.TLS? {
        let section = listener.section("tls")
        let shown = "\(shown).tls"
        // First, so that each file that cannot be used is reported.
        let clientCAFile = certificates(section, "client_ca_file", shown: shown)
        let certificateFile = certificates(section, "certificate_file", shown: shown)
        let keyFile = requiredFile(section, "key_file", shown: shown, isPrivate: true)
        guard let certificateFile, let keyFile else { return nil }
        var tls = ListenerSettings.TLS(certificateFile: certificateFile, keyFile: keyFile)
        tls.clientCAFile = clientCAFile
        section.fill(&tls.clientNames, "client_names")
        warnOfPatterns(
            tls.clientNames, section, shown: shown,
            remedy: "write each name; without client_names every client of client_ca_file may connect")
        if !tls.clientNames.isEmpty, !section.has("client_ca_file"), !section.node.hasUnread {
            reportError(
                section.place("client_names"),
                "\(shown).client_names: clients are asked for no certificate, so this restricts no client",
                remedy: "add client_ca_file, or remove client_names")
        }
        return tls
    }

    /// Of names of client certificates that look like patterns.
    mutating func warnOfPatterns(
        _ names: [String], _ section: ConfigurationSection, shown: String, remedy: String
    ) {
        for name in names where name.contains("*") {
            reportWarning(
                section.place("client_names"),
                "\(shown).client_names: \(ConfigurationText.quoted(name)) is no pattern: it is compared as a whole",
                remedy: remedy)
        }
    }

    /// A name without a port means the default port of the scheme, as in `Host: name`.
    private static func allowedHost(_ text: String, defaultPort: UInt16) -> String? {
        AddressText.listedHost(text).map { AddressText.authority(host: $0.host, port: $0.port ?? defaultPort) }
    }

    /// - Parameter isOpen: without further keys everyone who reaches it may call.
    private mutating func checkTCPAddress(
        _ host: String, _ port: UInt16, _ listener: ListenerSettings, _ section: ConfigurationSection, shown: String,
        isOpen: Bool
    ) {
        let reach = AddressText.reach(host)
        let address = listener.address.description
        let place = section.place("address")
        if section.text("socket_mode") != nil {
            reportError(
                section.place("socket_mode"),
                "\(shown).socket_mode: \(address) is not a unix socket, so this restricts no client",
                remedy: "use unix:/path, or remove socket_mode")
        }
        let checksCallers =
            section.has("capability_file") || section.has("capability_credential")
            || section.section("tls").has("client_ca_file")
        if isOpen, reach != .loopback, !listener.isUnsafe, !checksCallers, !section.isUnread("unsafe") {
            let capability = place.adding("capability_file", to: "listeners[]", flag: "--capability-file")
            let unsafe = place.adding("unsafe: true", to: "listeners[]", flag: "--unsafe")
            reportError(
                place, "\(shown).address: other machines can reach \(address) and would act as the user",
                remedy: "bind 127.0.0.1:\(port), \(capability), or \(unsafe) if something else prevents that")
        }
        if reach == .wildcard, !section.has("allowed_hosts"), !section.node.hasUnread {
            reportError(
                place, "\(shown).address: \(address) is every address, so there is no default for allowed_hosts",
                remedy: place.adding(
                    "allowed_hosts, such as [\"api.internal:\(port)\"]", to: "listeners[]",
                    flag: "--allowed-hosts, such as api.internal:\(port)"))
        }
        // A list with only invalid elements is not empty here. Its errors have been reported.
        if case .sequence([])? = section.node["allowed_hosts"]?.content, !routesNameHosts {
            reportWarning(
                section.place("allowed_hosts"), "\(shown).allowed_hosts is empty: every request with a Host gets 421",
                remedy: "name the hosts that clients use, or remove the key")
        }
    }

    /// These hosts are allowed without a list.
    private var routesNameHosts: Bool {
        let routes = tree["routes"]?.elements ?? []
        return routes.contains { $0["match"]?["hosts"]?.elements.isEmpty == false }
    }

    private mutating func checkUnixSocket(
        _ listener: ListenerSettings, _ section: ConfigurationSection, shown: String, isOpen: Bool
    ) {
        if isOpen, listener.socketMode & 0o007 != 0, !listener.isUnsafe, listener.peers == nil,
            !["unsafe", "peers"].contains(where: section.isUnread)
        {
            let place = section.place("socket_mode")
            let unsafe = place.adding("unsafe: true", to: "listeners[]", flag: "--unsafe")
            let peers = place.adding("peers", to: "listeners[]", flag: "--peer-uids")
            reportError(
                place,
                "\(shown).socket_mode: \(section.text("socket_mode") ?? "") lets every user of this machine connect and act as the user",
                remedy: "write 0600, or 0660 for a group; \(peers), or \(unsafe) if something else prevents that")
        }
        guard section.has("allowed_hosts"), !section.isUnread("allowed_hosts") else { return }
        reportWarning(
            section.place("allowed_hosts"),
            "\(shown).allowed_hosts is ignored: a unix socket takes every Host",
            remedy: "remove it; socket_mode decides which clients may connect")
    }

    /// Which address the socket has is known only when it is passed. `ActivatedSockets` checks the rest then.
    private mutating func checkActivatedSocket(_ section: ConfigurationSection, shown: String) {
        guard section.text("socket_mode") != nil else { return }
        reportError(
            section.place("socket_mode"),
            "\(shown).socket_mode: the service manager makes the file of this socket, so this restricts no client",
            remedy: "write SocketMode= into the socket unit, and remove socket_mode")
    }

    mutating func readHealth(_ top: ConfigurationSection) {
        if top.text("health") == "off" || top.section("health").text("address") == "off" {
            configuration.health = nil
            return
        }
        let section = top.section("health")
        if let address = section.text("address").flatMap({ try? AddressText.listenAddress($0) }) {
            configuration.health?.address = address
        }
        section.fill(&configuration.health!.allowedHosts, "allowed_hosts")
        section.fill(&configuration.health!.metricsPerUser, "metrics_per_user")
        section.fill(&configuration.health!.metricsPerRoute, "metrics_per_route")
        if case .unix = configuration.health?.address, configuration.health?.allowedHosts.isEmpty == false {
            reportWarning(
                section.place("allowed_hosts"), "health.allowed_hosts is ignored: a unix socket takes every Host",
                remedy: "remove it, or give health.address a TCP address")
        }
    }

    mutating func readAdmin(_ top: ConfigurationSection) {
        let section = top.section("admin")
        guard top.text("admin") != "off", section.text("address") != "off" else {
            configuration.admin = nil
            return
        }
        var admin = AdminSettings(folder: adminFolder)
        let address = section.text("address").flatMap { try? AddressText.listenAddress($0) }
        // A unix socket ignores the token.
        let isTCP = if case .tcp? = address { true } else { false }
        if section.has("token_file") || section.has("token_credential") {
            admin.tokenFile = secret(
                section, "token_file", shown: "admin", isOfField: isTCP, meanwhile: "every call over TCP is refused")
        }
        if let address {
            admin.address = address
            if case .tcp(let host, let port) = address { checkAdminAddress(host, port, section) }
        }
        section.fill(&admin.exposesTokens, "expose_tokens")
        if !isTCP, !section.isUnread("address"), admin.tokenFile != nil {
            let key = section.has("token_file") ? "token_file" : "token_credential"
            reportWarning(
                section.place(key), "admin.\(key) is ignored: a unix socket lets in only root and Lanyard's own user",
                remedy: "remove it, or give admin.address a TCP address")
        }
        configuration.admin = admin
    }

    /// Over TCP every Unix user of this machine can connect, so a token is required. Without TLS, only loopback addresses are allowed.
    private mutating func checkAdminAddress(
        _ host: String, _ port: UInt16, _ section: ConfigurationSection
    ) {
        if !section.has("token_file"), !section.has("token_credential"), !section.node.hasUnread {
            reportError(
                section.place("address"), "admin.address: every Unix user of this machine could call \(host):\(port)",
                remedy: "add admin.token_file, or use unix:/path")
        }
        if AddressText.reach(host) != .loopback {
            reportError(
                section.place("address"),
                "admin.address: passwords and the token would cross the network in plain on their way to \(host)",
                remedy: "bind 127.0.0.1:\(port), or use unix:/path")
        }
    }

    /// Reports listeners, health and admin that cannot be bound together.
    mutating func compareAddresses(_ top: ConfigurationSection) {
        var reserved = ReservedAddresses()
        for list in ["listeners", "brokers"] {
            for element in top.node[list]?.elements ?? [] {
                guard let text = element["address"]?.text, let address = try? AddressText.listenAddress(text) else {
                    continue
                }
                compare(address, element["address"]?.place ?? element.place, list, &reserved)
            }
        }
        // A value that could not be read does not take its default.
        let (health, admin) = (
            ConfigurationSection(top.node["health"]), ConfigurationSection(top.node["admin"])
        )
        if let settings = configuration.health, !top.isUnread("health"), !health.isUnread("address") {
            compare(settings.address, health.place("address"), "health", &reserved)
        }
        if let address = configuration.admin?.address {
            compare(address, admin.place("address"), "admin", &reserved)
        }
    }

    private mutating func compare(
        _ address: ListenerSettings.Address, _ place: ConfigurationPlace, _ shown: String,
        _ reserved: inout ReservedAddresses
    ) {
        guard let other = reserved.reserve(.init(address: address, place: place, shown: shown)) else { return }
        // A default has no place in a file. The error points at the address that was given.
        reportError(
            place == .commandLine ? other.place : place,
            "\(shown): \(address) and \(other.address) of \(other.shown) cannot both be bound",
            remedy: "choose another address or port")
    }
}

/// The addresses that listeners, health and admin will be bound to. It finds two that cannot be bound together.
struct ReservedAddresses {
    struct Reservation {
        let address: ListenerSettings.Address
        let place: ConfigurationPlace
        /// `listeners`, `health` or `admin`.
        let shown: String
    }

    private var byAddress: [String: Reservation] = [:]
    private var byPort: [UInt16: [Reservation]] = [:]
    /// The wildcard addresses in `byPort`.
    private var wildcards: [UInt16: [Reservation]] = [:]

    /// Adds an address.
    ///
    /// - Returns: an earlier reservation of the same address, or one that cannot be bound together with it; nil: none.
    mutating func reserve(_ reservation: Reservation) -> Reservation? {
        guard case .tcp(let host, let port) = reservation.address else {
            return register(reservation, as: "\(reservation.address)")
        }
        // The kernel chooses another port each time.
        guard port != 0 else { return nil }
        // One address has several spellings, above all in v6.
        let zone = host.drop { $0 != "%" }
        let spelt = SocketAddress(host: String(host.dropLast(zone.count)), port: port)?.host ?? host
        let canonical = AddressText.authority(host: spelt + zone, port: port)
        let isWildcard = AddressText.reach(host) == .wildcard
        // Only a wildcard address conflicts with many others. An equal address is found before the others are searched.
        if let same = register(reservation, as: canonical) { return same }
        let others = (isWildcard ? byPort[port] : wildcards[port]) ?? []
        byPort[port, default: []].append(reservation)
        if isWildcard { wildcards[port, default: []].append(reservation) }
        return others.first { AddressText.clash($0.address, reservation.address) }
    }

    private mutating func register(_ reservation: Reservation, as name: String) -> Reservation? {
        if let other = byAddress[name] { return other }
        byAddress[name] = reservation
        return nil
    }
}
