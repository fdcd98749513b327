import LanyardSettings

/// `brokers`.
extension ConfigurationBuilder {
    /// Behind listeners, identities and users. A broker is a listener of its own kind.
    mutating func readBrokers(_ top: ConfigurationSection) {
        for (index, element) in (top.node["brokers"]?.elements ?? []).enumerated() {
            let section = ConfigurationSection(element)
            let shown = "brokers[\(index)]"
            guard var listener = listener(section, top.section("limits"), shown: shown, ofBroker: true) else {
                continue
            }
            var broker = BrokerSettings(index: index)
            if let words = section.texts("serves") {
                broker.serves = Set(words.compactMap(BrokerSettings.Interface.init(rawValue:)))
                if case .sequence([])? = section.node["serves"]?.content {
                    reportError(
                        section.place("serves"), "\(shown).serves is empty", remedy: "remove it for GET /v1/token")
                }
            }
            readCallers(of: &broker, section, shown: shown)
            listener.broker = broker
            checkReach(of: listener, broker, section, shown: shown)
            configuration.listeners.append(listener)
        }
    }

    private mutating func readCallers(
        of broker: inout BrokerSettings, _ section: ConfigurationSection, shown: String
    ) {
        let list = section.node["callers"]?.elements ?? []
        if case .sequence([])? = section.node["callers"]?.content {
            reportError(
                section.place("callers"), "\(shown).callers is empty: every caller is refused",
                remedy: "add a row with users, and uids, client_names or capability_file")
        }
        for (index, element) in list.enumerated() {
            guard case .mapping = element.content else { continue }
            let row = ConfigurationSection(element)
            broker.callers.append(caller(row, shown: "\(shown).callers[\(index)]"))
        }
    }

    private mutating func caller(_ row: ConfigurationSection, shown: String) -> BrokerSettings.Caller {
        var caller = BrokerSettings.Caller(users: row.texts("users") ?? [])
        caller.uids = (row.texts("uids") ?? []).compactMap(UInt32.init)
        row.fill(&caller.clientNames, "client_names")
        warnOfPatterns(caller.clientNames, row, shown: shown, remedy: "write each name, or use capability_file")
        for name in caller.clientNames where !Self.isClientName(name) {
            reportError(
                row.place("client_names"),
                "\(shown).client_names: \(ConfigurationText.quoted(name)) is no name, or no address although it says IP:",
                remedy: "write DNS:, URI:, email: or IP: and the name, or the name alone")
        }
        if row.has("capability_file") || row.has("capability_credential") {
            caller.capabilityFile = secret(
                row, "capability_file", shown: shown, isOfField: true, meanwhile: "callers of this row are refused")
        }
        if case .sequence([])? = row.node["users"]?.content {
            reportError(
                row.place("users"), "\(shown).users is empty", remedy: "name the users whose tokens it may have")
        }
        caller.audiences = given(row, "audiences", shown: shown)
        caller.scopes = given(row, "scopes", shown: shown)
        for scope in caller.scopes ?? [] where !Self.isScope(scope) {
            reportError(
                Self.place(of: scope, in: row, "scopes"),
                "\(shown).scopes: \(ConfigurationText.quoted(scope)) is no scope",
                remedy: "write each scope as an element of its own, without blanks and quotes")
        }
        for user in caller.users { checkUser(user, of: caller, row, shown: shown) }
        return caller
    }

    /// The place of a value in a list.
    private static func place(
        of text: String, in row: ConfigurationSection, _ key: String
    ) -> ConfigurationPlace { row.node[key]?.elements.first { $0.text == text }?.place ?? row.place(key) }

    /// A name of another form is that of no certificate. The broker would leave it out.
    private static func isClientName(_ text: String) -> Bool {
        guard text.hasPrefix("IP:") else { return !["DNS:", "URI:", "email:"].contains(text) }
        return AddressText.isAddress(String(text.dropFirst(3)))
    }

    /// A list that was given; an empty one permits nothing, which is hardly meant.
    private mutating func given(_ row: ConfigurationSection, _ key: String, shown: String) -> [String]? {
        guard let texts = row.texts(key) else { return nil }
        if texts.isEmpty, row.node[key]?.elements.isEmpty == true {
            reportError(
                row.place(key), "\(shown).\(key) is empty: no token could be given",
                remedy: "remove it, or name some")
        }
        return texts
    }

    private mutating func checkUser(
        _ user: String, of caller: BrokerSettings.Caller, _ row: ConfigurationSection, shown: String
    ) {
        let asksForToken = caller.audiences != nil || caller.scopes != nil
        guard user != BrokerSettings.activeUser || userNames.contains(user) else {
            guard asksForToken else { return }
            return reportError(
                row.place("users"),
                "\(shown).users: the active user may be one with a single access token, so no audience or scope can be asked for",
                remedy: "name the user, or remove audiences and scopes")
        }
        if userNames.isUnknown(user) { return reportUnknown(user, row, isError: asksForToken, shown: shown) }
        guard asksForToken, let settings = accounts.user(user), let kind = identityKinds[settings.identity] else {
            return
        }
        guard kind == "oauth2" || kind == "lanyard" else {
            return reportError(
                row.place("users"),
                "\(shown).users: a user of a \(kind) identity has one access token, and \(user) is one",
                remedy: "remove audiences and scopes, or give it a row of its own")
        }
        if case .oauth(let client)? = accounts.identity(settings.identity)?.kind, client.accessTokens == .single {
            reportError(
                row.place("users"),
                "\(shown).users: the identity \(settings.identity) has one access token at a time (access_tokens: single)",
                remedy: "remove audiences and scopes, or write access_tokens: several")
        }
    }

    /// As for routes: the admin API may add the user, and the store keeps users that were added.
    private mutating func reportUnknown(_ user: String, _ row: ConfigurationSection, isError: Bool, shown: String) {
        let store = ConfigurationSection(tree).section("store")
        let mayCome = configuration.admin != nil || store.has("path") || store.isUnread("path")
        let message = "\(shown).users: no user \"\(user)\" is configured"
        let suggestion = userNames.suggestion(for: user)
        if mayCome, !isError {
            reportWarning(
                Self.place(of: user, in: row, "users"), message,
                remedy: suggestion ?? "its token is refused until it exists")
        } else {
            reportError(
                Self.place(of: user, in: row, "users"), message,
                remedy: suggestion ?? "add it below users, or correct the name")
        }
    }

    // MARK: Who reaches it

    /// The row asks for nothing. Where it does, with a value that cannot be read, that is an error of its own.
    private static func namesNone(_ row: ConfigurationNode) -> Bool {
        !ConfigurationSection(row).isUnread("capability_file") && row["capability_file"] == nil
            && row["capability_credential"] == nil
            && ["uids", "client_names"].allSatisfy { key in
                !ConfigurationSection(row).isUnread(key) && row[key]?.elements.isEmpty ?? true
            }
    }

    private mutating func checkReach(
        of listener: ListenerSettings, _ broker: BrokerSettings, _ section: ConfigurationSection, shown: String
    ) {
        let isUnix = if case .unix = listener.address { true } else { false }
        let tls = section.section("tls")
        let demandsCertificates = tls.has("client_ca_file") || tls.node.hasUnread
        for (index, caller) in broker.callers.enumerated() {
            let element = section.node["callers"]?.elements[index] ?? section.node
            let place = element.place
            let row = "\(shown).callers[\(index)]"
            if !caller.uids.isEmpty, case .tcp = listener.address {
                reportError(
                    place, "\(row).uids: \(listener.address) is not a unix socket, so no caller has a user id",
                    remedy: "use unix:/path, or capability_file in place of uids")
            }
            if !caller.clientNames.isEmpty, !demandsCertificates, !section.node.hasUnread {
                reportError(
                    place, "\(row).client_names: callers are asked for no certificate, so no row of names matches",
                    remedy: "add tls with client_ca_file, or use capability_file")
            }
            guard caller.isAnyone, !section.isUnread("callers"), !element.hasUnread, Self.namesNone(element) else {
                continue
            }
            if !listener.isUnsafe {
                reportError(
                    place, "\(row): it has neither uids nor client_names nor capability_file, so it is everyone",
                    remedy: "add one of them, or write unsafe: true into the broker if something else keeps others away"
                )
            } else {
                let users = caller.users.joined(separator: ", ")
                reportWarning(
                    place,
                    "\(row): every \(isUnix ? "user" : "process") that reaches \(listener.address) gets tokens of \(users)",
                    remedy: "add uids, client_names or capability_file, or see to it that only the caller reaches it")
            }
        }
        guard case .tcp(let host, let port) = listener.address else { return }
        let reach = AddressText.reach(host)
        if reach == .linkLocal {
            reportError(
                section.place("address"), "\(shown).address: \(host) is an address of metadata services",
                remedy: "bind 127.0.0.1:\(port), and give it to clients with GCE_METADATA_HOST")
        } else if reach != .loopback, !section.has("tls"), !listener.isUnsafe {
            reportError(
                section.place("address"),
                "\(shown).address: tokens would cross the network in plain on their way from \(host)",
                remedy: "add tls, bind 127.0.0.1:\(port), or write unsafe: true if that way is safe")
        }
    }
}
