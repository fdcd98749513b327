import Glibc
import LanyardFoundations
import LanyardSettings

/// Turns the merged and checked tree into settings, and checks rules that concern several keys.
struct ConfigurationBuilder {
    let tree: ConfigurationNode
    /// `$CREDENTIALS_DIRECTORY`.
    let credentialsFolder: String?
    /// The folder of the default admin socket.
    let adminFolder: String?
    /// For routes with `proxy: environment`.
    let proxies: ProxyEnvironment
    /// Secrets are read, so that what editors have added to them is found.
    let readsSecrets: Bool
    var diagnostics: [ConfigurationError] = []
    var configuration = Configuration()
    var identityNames: ConfigurationNames
    var userNames: ConfigurationNames
    /// The kind of each identity that has exactly one.
    let identityKinds: [String: String]
    /// What was read of identities and users, by name.
    var accounts = ConfiguredAccounts()
    /// The upstreams that were read, by their text: many routes may have the same one.
    var upstreams: [String: URLText.Upstream] = [:]

    /// The configuration, with errors and warnings that concern several keys.
    static func build(
        _ tree: ConfigurationNode, credentialsFolder: String?, adminFolder: String?, proxies: ProxyEnvironment,
        readsSecrets: Bool = false
    ) -> (configuration: Configuration, diagnostics: [ConfigurationError]) {
        var builder = ConfigurationBuilder(
            tree, credentialsFolder: credentialsFolder, adminFolder: adminFolder, proxies: proxies,
            readsSecrets: readsSecrets)
        builder.complete()
        return (builder.configuration, builder.diagnostics)
    }

    private init(
        _ tree: ConfigurationNode, credentialsFolder: String?, adminFolder: String?, proxies: ProxyEnvironment,
        readsSecrets: Bool
    ) {
        self.proxies = proxies
        self.readsSecrets = readsSecrets
        self.tree = tree
        self.credentialsFolder = credentialsFolder
        self.adminFolder = adminFolder
        identityNames = ConfigurationNames("identities", in: tree)
        userNames = ConfigurationNames("users", in: tree)
        identityKinds = Self.kinds(of: tree["identities"]?.entries ?? [])
    }

    private mutating func complete() {
        requireKeys(tree, of: "", shown: "")
        let top = ConfigurationSection(tree)
        readListeners(top)
        readHealth(top)
        readAdmin(top)
        readStore(top)
        readIdentities(top)
        readUsers(top)
        readBrokers(top)
        Self.readHTTP2(top.section("http2"), &configuration.limits.http2)
        readRoutes(top)
        readProcess(top)
        compareAddresses(top)
        if Self.mentionsVariable(tree) { warnOfVariables(tree, shown: "") }
    }

    /// Whether `warnOfVariables` may find one. That names each value, of which a file may have a hundred thousand.
    private static func mentionsVariable(_ node: ConfigurationNode) -> Bool {
        switch node.content {
        case .scalar(let text): text.utf8.contains(UInt8(ascii: "$"))
        case .sequence(let elements): elements.contains(where: mentionsVariable)
        case .mapping(let entries): entries.contains { mentionsVariable($0.value) }
        case .invalid: false
        }
    }

    /// Warns of `${NAME}` in a value: other programs would replace it.
    private mutating func warnOfVariables(_ node: ConfigurationNode, shown: String) {
        switch node.content {
        case .scalar(let text):
            guard let start = text.firstRange(of: "${"), let end = text[start.upperBound...].firstIndex(of: "}") else {
                return
            }
            reportWarning(
                node.place,
                "\(shown): \(text[start.lowerBound...end]) is plain text: no variable is replaced in a value",
                remedy: "write the value, or set the key by its own variable (lanyard run --help)")
        case .sequence(let elements):
            for (index, element) in elements.enumerated() { warnOfVariables(element, shown: "\(shown)[\(index)]") }
        case .mapping(let entries):
            for entry in entries {
                warnOfVariables(entry.value, shown: shown.isEmpty ? entry.key : "\(shown).\(entry.key)")
            }
        case .invalid: break
        }
    }

    private static func readHTTP2(_ section: ConfigurationSection, _ settings: inout HTTP2Settings) {
        section.fill(&settings.streamsMax, "streams_max")
        section.fill(&settings.streamWindow, "stream_window")
        section.fill(&settings.connectionWindow, "connection_window")
        section.fill(&settings.pingAfter, "ping_after")
        section.fill(&settings.pingTimeout, "ping_timeout")
        section.fill(&settings.maxAge, "max_age")
        section.fill(&settings.requestsMax, "requests_max")
    }

    private mutating func readProcess(_ top: ConfigurationSection) {
        let refresh = top.section("refresh")
        if let at = refresh.text("at").flatMap(ConfigurationText.portion) { configuration.refresh.at = at }
        refresh.fill(&configuration.refresh.mandatory, "mandatory")
        refresh.fill(&configuration.refresh.waitMax, "wait_max")
        refresh.fill(&configuration.refresh.cooldown, "cooldown")
        refresh.fill(&configuration.refresh.perHourMax, "per_hour_max")
        refresh.fill(&configuration.refresh.secondCallAfter, "second_call_after")
        refresh.fill(&configuration.refresh.attemptTimeout, "attempt_timeout")
        // The default is the time that the calls of an identity have anyway.
        if configuration.refresh.attemptTimeout == .seconds(30) { configuration.refresh.attemptTimeout = nil }
        let login = top.section("login")
        login.fill(&configuration.login.offline, "offline")
        login.fill(&configuration.login.exitOnRefusal, "exit_on_refusal")
        login.fill(&configuration.login.exitOnUnreachable, "exit_on_unreachable")
        let limits = top.section("limits")
        limits.fill(&configuration.limits.connectionsMax, "connections_max")
        limits.fill(&configuration.limits.connectionsPerPeerMax, "connections_per_peer_max")
        limits.fill(&configuration.limits.requestsPerConnectionMax, "requests_per_connection_max")
        limits.fill(&configuration.limits.headerBytesMax, "header_bytes_max")
        limits.fill(&configuration.limits.headerFieldsMax, "header_fields_max")
        limits.fill(&configuration.limits.responseHeader.bytesMax, "response_header_bytes_max")
        limits.fill(&configuration.limits.responseHeader.fieldsMax, "response_header_fields_max")
        limits.fill(&configuration.limits.certificateBytesMax, "certificate_bytes_max")
        limits.fill(&configuration.limits.handshakesMax, "handshakes_max")
        limits.fill(&configuration.limits.requestLineBytesMax, "request_line_bytes_max")
        limits.fill(&configuration.limits.headerTimeout, "header_timeout")
        limits.fill(&configuration.limits.idleTimeout, "idle_timeout")
        limits.fill(&configuration.limits.keepAlive.idle, "keepalive_idle")
        limits.fill(&configuration.limits.keepAlive.interval, "keepalive_interval")
        limits.fill(&configuration.limits.keepAlive.probesMax, "keepalive_probes_max")
        limits.fill(&configuration.limits.parkedRequestsMax, "parked_requests_max")
        limits.fill(&configuration.limits.bufferBytesMax, "buffer_bytes_max")
        top.section("log").fill(&configuration.log.level, "level")
        top.section("log").fill(&configuration.log.format, "format")
        top.section("log").fill(&configuration.log.logsAccess, "access")
        let shutdown = top.section("shutdown")
        shutdown.fill(&configuration.shutdown.drainMin, "drain_min")
        shutdown.fill(&configuration.shutdown.drainMax, "drain_max")
        shutdown.fill(&configuration.shutdown.exitZeroOnSIGTERM, "exit_zero_on_sigterm")
        top.fill(&configuration.loginRequiredStatus, "login_required_status")
        configuration.activatesNextOnLogout = top.text("on_active_logout") == "next"
        top.fill(&configuration.shards, "shards")
    }

    /// Reports required keys that are missing in sections that exist.
    private mutating func requireKeys(_ node: ConfigurationNode, of section: String, shown: String) {
        guard case .mapping = node.content else { return }
        for key in ConfigurationKeys.keysToRequire(in: section) {
            let value = node[key.name]
            if value == nil, !key.isRequired || isOptional(key, in: node) { continue }
            let name = shown.isEmpty ? key.name : "\(shown).\(key.name)"
            guard let value else {
                if case .wholeFile = node.place, key.path == "routes" {
                    reportError(
                        node.place, "the file is empty", remedy: "write at least: \(ConfigurationFile.smallest)")
                } else if key.isRequired, !node.hasUnread {
                    reportError(node.place, "missing key \"\(name)\"", remedy: "add it: \(key.unit)")
                }
                continue
            }
            switch key.kind {
            case .section: requireKeys(value, of: key.below, shown: name)
            case .sections:
                for (index, element) in value.elements.enumerated() {
                    requireKeys(element, of: key.below, shown: "\(name)[\(index)]")
                }
            case .named:
                for entry in value.entries { requireKeys(entry.value, of: key.below, shown: "\(name).\(entry.key)") }
            default: break
            }
        }
    }

    /// A broker serves without routes.
    private func isOptional(_ key: ConfigurationKey, in node: ConfigurationNode) -> Bool {
        key.path == "routes" && node["brokers"] != nil
    }

    // MARK: - Files

    /// The path of a secret, given as `…_file` or as the systemd credential `…_credential`.
    ///
    /// - Parameters:
    ///   - form: what its text may hold.
    ///   - sent: what it is in the field in which Lanyard sends it as it is written; nil: it is sent elsewhere.
    ///   - isOfField: callers send it in a field, so that a present content that cannot be sent or could be guessed is an error.
    ///   - meanwhile: the consequence while the file cannot be read.
    mutating func secret(
        _ section: ConfigurationSection, _ key: String, shown: String, form: SecretText.Form = .token,
        sent: FieldValueSecret.Form? = nil, isOfField: Bool = false, meanwhile: String = "its user is refused"
    ) -> String? {
        let sibling = key.dropLast("_file".utf8.count) + "_credential"
        if section.has(key), section.has(String(sibling)) {
            reportError(
                section.place(String(sibling)), "\(shown): both \(key) and \(sibling)", remedy: "keep one of them")
            return nil
        }
        if let name = section.text(String(sibling)) {
            guard let credentialsFolder else {
                reportError(
                    section.place(String(sibling)), "\(shown).\(sibling): systemd passed no credentials",
                    remedy: "add LoadCredential=\(name):/PATH to the unit, or use \(key)")
                return nil
            }
            return checkSecretFile(
                "\(credentialsFolder)/\(name)", section.place(String(sibling)), "\(shown).\(sibling)", form,
                sent: sent, isOfField: isOfField, meanwhile)
        }
        guard section.has(key) else {
            if section.node.hasUnread { return nil }
            reportError(
                section.node.place, "missing key \"\(shown).\(key)\"", remedy: "add the path of the file that holds it")
            return nil
        }
        return section.text(key).map {
            checkSecretFile(
                $0, section.place(key), "\(shown).\(key)", form, sent: sent, isOfField: isOfField, meanwhile)
        }
    }

    private mutating func checkSecretFile(
        _ path: String, _ place: ConfigurationPlace, _ shown: String, _ form: SecretText.Form,
        sent: FieldValueSecret.Form?, isOfField: Bool, _ meanwhile: String
    ) -> String {
        // A file that appears later is checked when it is read.
        if isOfField, let error = FieldSecret.error(inFile: path) {
            reportError(place, "\(shown): \(error.message(path: path))", remedy: "correct the file")
            return path
        }
        checkText(of: path, place, shown, form, sent: sent, meanwhile)
        switch ConfigurationFile.state(of: path) {
        case .fine: break
        case .worldReadable:
            guard configuration.openSecretFiles.insert(path).inserted else { break }
            reportWarning(place, "\(shown): every Unix user of this machine can read \(path)", remedy: "chmod o-rwx it")
        case .empty:
            reportWarning(
                place, "\(shown): \(path) is empty", remedy: "\(meanwhile) until the secret is written into it")
        case .missing:
            reportWarning(place, "\(shown): \(path) does not exist", remedy: "\(meanwhile) until the file appears")
        case .notAFile:
            reportWarning(place, "\(shown): \(path) is a folder", remedy: "\(meanwhile) until it is a file")
        case .notRegular:
            reportWarning(
                place, "\(shown): \(path) is not a regular file",
                remedy: "\(meanwhile) until it is one, since it is read again and again")
        case .unreadable(let code):
            let mend =
                code == EACCES ? ": give it to the group of Lanyard, mode 0640, in a folder that it may enter" : ""
            reportWarning(
                place, "\(shown): \(path) cannot be read (\(Errno.text(of: code)))",
                remedy: "\(meanwhile) until it can be read\(mend)")
        }
        return path
    }

    /// Warns of what an editor or another program may have added to a secret. A file that cannot be read is reported elsewhere.
    ///
    /// - Parameters:
    ///   - sent: see `secret`: a content that no field can carry is reported as `run` reports it.
    ///   - meanwhile: see `secret`. Unused unless it is sent.
    mutating func checkText(
        of path: String, _ place: ConfigurationPlace, _ shown: String, _ form: SecretText.Form,
        sent: FieldValueSecret.Form? = nil, _ meanwhile: String = ""
    ) {
        guard readsSecrets else { return }
        do throws(SecretFile.ReadError) {
            let bytesMax = SecretFile.credentialBytesMax
            let content =
                try form == .bytes
                ? SecretFile.readWhole(path, bytesMax: bytesMax) : SecretFile.read(path, bytesMax: bytesMax)
            let written = form == .bytes ? SecretText.withoutLineEnd(content.secret) : content.secret
            let secret = SecretText.content(of: written, as: form)
            guard secret.count > 0 else { return reportBlank(path, place, shown) }
            if let sent { _ = try FieldValueSecret.value(of: secret, as: sent) }
            let skipped =
                form == .any && content.hasByteOrderMark ? "begins with a byte order mark, which is skipped" : nil
            // Blanks are part of such a line.
            guard let finding = SecretText.finding(in: secret, as: sent == .line ? .any : form) ?? skipped else {
                return
            }
            reportWarning(
                place, "\(shown): \(path) \(finding)",
                remedy: form == .bytes
                    ? "it counts as part of the secret: every copy must have it, byte by byte"
                    : "if that is no part of the secret, write the secret alone into it: printf %s SECRET > FILE")
        } catch {
            switch error {
            case .unfit(let reason) where sent != nil:
                reportWarning(place, "\(shown): \(path) \(reason)", remedy: "\(meanwhile) until it does")
            case .unfit(let reason): reportWarning(place, "\(shown): \(path) cannot be used", remedy: "it \(reason)")
            case .empty: reportBlank(path, place, shown)
            case .tooLarge:
                reportWarning(place, "\(shown): \(path) cannot be used", remedy: "it is larger than any secret")
            // Reported as the state of the file.
            case .system, .notRegular, .delayed, .unsettled, .stopping: break
            }
        }
    }

    /// A file without any byte is reported elsewhere.
    private mutating func reportBlank(_ path: String, _ place: ConfigurationPlace, _ shown: String) {
        guard ConfigurationFile.state(of: path) != .empty else { return }
        reportWarning(
            place, "\(shown): \(path) holds no secret, but a line end or blanks", remedy: "write the secret into it")
    }

    /// The path of a file that must exist.
    mutating func requiredFile(_ section: ConfigurationSection, _ key: String, shown: String, isPrivate: Bool = false)
        -> String?
    {
        section.text(key).flatMap { requiredPath($0, section.place(key), "\(shown).\(key)", isPrivate: isPrivate) }
    }

    /// The same for certificates, with a check of the content. With a file without certificates every call would fail, and only the log
    /// would show why.
    mutating func certificates(_ section: ConfigurationSection, _ key: String, shown: String) -> String? {
        guard let path = requiredFile(section, key, shown: shown) else { return nil }
        guard CertificateFile.hasCertificate(path) else {
            if let finding = CertificateFile.finding(path) {
                reportError(
                    section.place(key), "\(shown).\(key): \(path) holds no certificate in PEM", remedy: "it \(finding)")
                return nil
            }
            reportError(
                section.place(key), "\(shown).\(key): \(path) holds no certificate in PEM, or a damaged one",
                remedy: "name a file with BEGIN CERTIFICATE in it; openssl x509 -inform der -in FILE makes PEM of DER")
            return nil
        }
        return path
    }

    /// The same for a path that was derived from the configuration.
    mutating func requiredPath(
        _ path: String, _ place: ConfigurationPlace, _ shown: String, isPrivate: Bool
    ) -> String? {
        switch ConfigurationFile.state(of: path) {
        // What the content must be is checked where it is read.
        case .fine, .empty: return path
        case .worldReadable:
            if isPrivate {
                reportWarning(
                    place, "\(shown): every Unix user of this machine can read \(path)",
                    remedy: "chmod o-rwx it")
            }
            return path
        case .missing:
            reportError(
                place, "\(shown): \(path) does not exist",
                remedy: "put the file there, or correct the path")
        case .notAFile: reportError(place, "\(shown): \(path) is a folder", remedy: "name a file")
        case .notRegular:
            reportError(
                place, "\(shown): \(path) is not a regular file", remedy: "name one, since it is read again and again")
        case .unreadable(let code):
            reportError(
                place, "\(shown): \(path) cannot be read (\(Errno.text(of: code)))",
                remedy: "let this user read it")
        }
        return nil
    }

    // MARK: - Errors

    /// A mistake that two checks find is reported once.
    mutating func reportError(_ place: ConfigurationPlace, _ message: String, remedy: String) {
        let isKnown = diagnostics.contains {
            $0.severity == .error && $0.place == place && $0.message == message
        }
        if !isKnown { diagnostics.append(ConfigurationError(at: place, message, remedy: remedy)) }
    }

    mutating func reportWarning(_ place: ConfigurationPlace, _ message: String, remedy: String) {
        diagnostics.append(ConfigurationError(.warning, at: place, message, remedy: remedy))
    }
}
