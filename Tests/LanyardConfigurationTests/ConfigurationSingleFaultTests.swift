import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// A valid configuration with one mistake in it: the mistake is told once, at its place, and nothing follows from it.
@Suite struct ConfigurationSingleFaultTests {
    /// Every key of this version, with a value other than its default. Left out are alternatives of keys that are here.
    static let text = """
        listeners:
          - address: 127.0.0.1:7400
            allowed_hosts: [LOCALHOST:7400, api.internal]
            allowed_origins: [https://app.example.com, "null"]
          - {address: "unix:/run/lanyard/data.sock", socket_mode: "0660", peers: {uids: [1], gids: [2]}}
          - {address: "0.0.0.0:7402", unsafe: true, allowed_hosts: ["api.internal:7402"], protocols: [http2], websocket_over_http2: true}
          - address: 127.0.0.1:7404
            tls: {certificate_file: cert.pem, key_file: key.pem, client_ca_file: ca.pem, client_names: [orders]}
          - {address: "127.0.0.1:7401", capability_file: capability, required_header: Lanyard-Request}
        health: {address: "127.0.0.1:7405", allowed_hosts: [lanyard], metrics_per_user: false, metrics_per_route: false}
        admin: {address: "127.0.0.1:7403", token_file: admin, expose_tokens: true}
        brokers:
          - address: 127.0.0.1:7406
            tls: {certificate_file: cert.pem, key_file: key.pem, client_ca_file: ca.pem, client_names: [orders]}
            allowed_hosts: [LOCALHOST:7406]
            protocols: [http1]
            required_header: Lanyard-Request
            capability_file: capability
            unsafe: true
            serves: [token, oauth2]
            callers:
              - {client_names: [orders], capability_file: capability, users: [cara], audiences: ["https://a"], scopes: [orders]}
          - address: unix:/run/lanyard/broker.sock
            socket_mode: "0660"
            peers: {uids: [1], gids: [2]}
            callers: [{uids: [1], users: [robot]}]
        identities:
          demo:
            app_services: {app_id: demo-abcde, base_url: "https://127.0.0.1:7490", rotation: grace}
            tls: {ca_file: ca.pem, certificate_file: cert.pem, key_file: key.pem}
            proxy: environment
          local: {app_services: {app_id: a, base_url: "http://127.0.0.1:7493"}, unsafe_plain: true,
             proxy: {url: "http://127.0.0.1:3128", credentials_file: key}}
          fixed: {static: {token_file: token}}
          corp:
            oauth2:
              issuer: https://127.0.0.1:7491/i
              client_id: lanyard
              client_authentication: post
              client_secret_file: key
              scopes: [orders]
              params: {audience: a, resource: ["https://a", "https://b"]}
              token_headers: {X-Plain: one, X-Key: {file: key}}
              rotation: {grace: 40s}
              token_lifetime: 10m
              refresh_lifetime: 30d
              refresh_idle: 12h
              last_try: false
              profile: keycloak
          signer:
            oauth2:
              endpoints:
                {
                  token: "https://127.0.0.1:7491/t", revocation: "https://127.0.0.1:7491/r",
                  device_authorization: "https://127.0.0.1:7491/d", authorization: "https://127.0.0.1:7491/a",
                  pushed_authorization: "https://127.0.0.1:7491/p"
                }
              client_id: signer
              access_tokens: single
              client_key: {file: key, id: k1, algorithm: PS256, audience: token_endpoint}
          pod: {oauth2: {issuer: "https://127.0.0.1:7491", client_id: pod, client_assertion_file: token, client_assertion_type: "urn:x"}}
          ci:
            github_app:
              app_id: app
              installation_id: "7"
              key_file: key
              base_url: https://127.0.0.1:7492/api/v3
              repositories: [one]
              permissions: {contents: read}
        users:
          zoe:
            identity: demo
            login: {email_password: {email: zoe@example.com, password_file: password}}
          alice: {identity: demo, login: {api_key: {key_file: key}}}
          kiosk: {identity: demo, login: {anonymous: {}}}
          fay: {identity: demo, login: {function: {payload_file: key}}}
          joe: {identity: demo, login: {jwt: {token_file: key}}}
          fred: {identity: demo, login: {facebook: {access_token_file: key}}}
          gus: {identity: demo, login: {google: {id_token_file: key}}}
          gwen: {identity: demo, login: {google: {auth_code_file: key}}}
          amy: {identity: demo, login: {apple: {id_token_file: key}}}
          robot: {identity: fixed}
          cara: {identity: corp, login: {client_credentials: {}}}
          paul: {identity: corp, login: {password: {username: paul, password_file: password}}}
          rita: {identity: signer, login: {refresh_token: {token_file: key}}}
          jack: {identity: signer, login: {jwt_bearer: {assertion_file: key}}}
          jill:
            identity: signer
            login:
              jwt_bearer:
                key:
                  {
                    file: key, id: k1, algorithm: RS256, issuer: me, subject: jill, audience: token_endpoint, lifetime: 10m,
                    scopes: claim, claims: {tenant: blue}
                  }
          goro: {identity: signer, login: {jwt_bearer: {google_key_file: key, google_subject: goro}}}
          tess:
            identity: pod
            login:
              token_exchange:
                {
                  subject_token_file: key, subject_token_type: jwt, actor_token_file: token, actor_token_type: saml2,
                  requested_token_type: "urn:own"
                }
          dina: {identity: corp, login: {device: {}}}
          cody: {identity: corp, login: {authorization_code: {}}}
          gita: {identity: ci, login: {github_app: {}}}
        active_user: alice
        on_active_logout: next
        routes:
          - name: orders
            match: {hosts: [Orders.Internal], path: /orders, methods: [GET, POST]}
            deny: [{path: /orders/admin}, {path: /orders/x, methods: [POST]}]
            upstream: http://127.0.0.1:9000/v1
            user: robot
            inject: {header: X-Token, format: "t={token};"}
            client_authorization: reject
            reauthenticate_on: [401, 419]
            protocol: http2
            replay_body_max: 1KiB
            host: {value: api.internal}
            set_headers: {X-Tenant: blue, Authorization: none, X-Key: {file: key}}
            request_id_header: X-Request-Id
            body_bytes_max: 10MiB
            forwarded: append
            redirects: {mode: pass, fields: [X-Next]}
            cookies: pass
            upgrades: [foo]
            paths: strict
            errors: jsonrpc
            wait_max: 40s
            unauthorized: 503
            timeouts: {connect: 20s, connect_all: 30s, response_header: 3s, request_idle: 4s, response_idle: 5s, write: 6s,
                       upgraded_idle: 7s, upgraded_half_closed: 6s}
            upgraded_max_age: 8s
            close_upgraded_on: [switch]
            close_streams_on: [logout]
            connections_max: 7
            connections: shared
          - {name: own, match: {path: /own}, upstream: "http://127.0.0.1:9", user: cara,
             token: {audience: own, resource: ["https://own"], scopes: [read]}}
          - {name: rest, upstream: "unix:/run/up.sock", host: client}
          - {name: root, upstream: "http://127.0.0.1:9", match: {methods: [GET]}}
          - {name: here, upstream: "http://127.0.0.1:9", match: {hosts: [here.internal]}, set_headers: {X-A: a}}
          - {name: far, match: {path: /far}, upstream: "http://api.internal:8080", unsafe_plain: true}
          - {name: local, match: {path: /local}, upstream: "http://169.254.1.1", unsafe_plain: true, allow_link_local: true}
          - {name: sure, match: {path: /sure}, upstream: "https://api.internal",
             tls: {ca_file: ca.pem, server_name: other.internal, certificate_file: cert.pem, key_file: key.pem}}
          - {name: behind, match: {path: /behind}, upstream: "https://api.internal",
             proxy: {url: "http://proxy.internal:3128", credentials_file: key}}
        store: {path: sessions, key_file: seal}
        refresh: {at: 50-60%, mandatory: 30s, wait_max: 2s, cooldown: 20s, per_hour_max: 10,
                  second_call_after: 3s, attempt_timeout: 20s}
        login: {offline: never, exit_on_refusal: true, exit_on_unreachable: true}
        limits: {connections_max: 100, connections_per_peer_max: 9, requests_per_connection_max: 1000, header_bytes_max: 32KiB,
                 header_fields_max: 64, response_header_bytes_max: 256KiB, response_header_fields_max: 512,
                 certificate_bytes_max: 64KiB, handshakes_max: 256, request_line_bytes_max: 8KiB, header_timeout: 5s, idle_timeout: 30s,
                 parked_requests_max: 10, buffer_bytes_max: 2MiB, keepalive_idle: 20s, keepalive_interval: 6s,
                 keepalive_probes_max: 4}
        http2: {
          streams_max: 64, stream_window: 32KiB, connection_window: 32MiB, ping_after: 20s, ping_timeout: 5s, max_age: 1h,
          requests_max: 1000
        }
        upstream_dns: {refresh: 5s, timeout: 4s}
        login_required_status: 401
        log: {level: debug, format: text, access: false}
        shutdown: {drain_min: 1s, drain_max: 5s, exit_zero_on_sigterm: true}
        shards: 3

        """

    /// What has no place in `text`: the other one of a pair, and what does nothing.
    private static let elsewhere: Set<String> = [
        "store.passphrase_file", "store.memory", "sandbox", "user",
        "shutdown.logout", "routes[].tls.unsafe_skip_verify",
        // In OtherLanyardConfigurationTests.
        "identities.*.lanyard", "identities.*.lanyard.address", "identities.*.lanyard.capability_file",
        "users.*.login.broker", "users.*.login.broker.user",
    ]

    // MARK: - Documents as trees

    /// A place in the document: keys, and numbers of elements.
    private enum Step: Equatable { case key(Int), element(Int) }

    private let folder: TemporaryFolder
    private let tree: ConfigurationNode

    init() throws {
        folder = try TemporaryFolder()
        for file in ["ca.pem", "cert.pem"] { try folder.write(file, TestCertificate.pem) }
        for file in ["key.pem", "token", "password", "key"] { try folder.write(file, "secret") }
        for file in ["admin", "capability"] { try folder.write(file, String(repeating: "a", count: 32)) }
        try folder.write("seal", String(repeating: "k", count: 32))
        tree = try #require(ConfigurationDocument.read(Array(Self.text.utf8), path: "f").tree)
    }

    private func load(_ tree: ConfigurationNode, suffix: String = "") -> (loaded: LoadedConfiguration, text: String) {
        let text = Self.yaml(tree) + suffix
        return (ConfigurationLoader.load(Array(text.utf8), path: folder.file("f")), text)
    }

    /// One line for each key and each element, so that a place is a line.
    private static func yaml(_ node: ConfigurationNode) -> String {
        switch node.content {
        case .scalar(let text): ConfigurationPrinter.scalar(text)
        case .sequence(let elements): "[" + elements.map { "\n" + yaml($0) }.joined(separator: ",") + "]"
        case .mapping(let entries):
            "{"
                + entries.map { "\n" + ConfigurationPrinter.scalar($0.key) + ": " + yaml($0.value) }.joined(
                    separator: ",")
                + "}"
        case .invalid: "~"
        }
    }

    /// All places but the root, the outer ones first.
    private static func places(in node: ConfigurationNode) -> [[Step]] {
        var found: [[Step]] = []
        for (index, entry) in node.entries.enumerated() {
            found += [[.key(index)]] + places(in: entry.value).map { [.key(index)] + $0 }
        }
        for (index, element) in node.elements.enumerated() {
            found += [[.element(index)]] + places(in: element).map { [.element(index)] + $0 }
        }
        return found
    }

    /// Changes the entry or element at a place; `change` may take it away.
    private static func changed(
        _ node: ConfigurationNode, at place: ArraySlice<Step>,
        _ change: (ConfigurationNode.Entry) -> ConfigurationNode.Entry?
    ) -> ConfigurationNode {
        var node = node
        func turned(_ entry: ConfigurationNode.Entry) -> ConfigurationNode.Entry? {
            guard place.count > 1 else { return change(entry) }
            var entry = entry
            entry.value = changed(entry.value, at: place.dropFirst(), change)
            return entry
        }
        switch place.first {
        case .key(let index)?:
            var entries = node.entries
            entries.replaceSubrange(index...index, with: turned(entries[index]).map { [$0] } ?? [])
            node.content = .mapping(entries)
        case .element(let index)?:
            var elements = node.elements
            let entry = ConfigurationNode.Entry(key: "", place: elements[index].place, value: elements[index])
            elements.replaceSubrange(index...index, with: turned(entry).map { [$0.value] } ?? [])
            node.content = .sequence(elements)
        case nil: break
        }
        return node
    }

    /// Mappings whose names are chosen and that hold keys.
    private static let named: Set<String> = [
        "identities", "users", "identities.*.oauth2.token_headers", "routes[].set_headers",
    ]

    /// `routes[].match.path` of a place; names are `*`.
    private func path(_ place: [Step]) -> String {
        var (node, path) = (tree, "")
        for step in place {
            switch step {
            case .key(let index):
                let entry = node.entries[index]
                path += (path.isEmpty ? "" : ".") + (Self.named.contains(path) ? "*" : entry.key)
                node = entry.value
            case .element(let index):
                path += "[]"
                node = node.elements[index]
            }
        }
        return path
    }

    /// The line in `yaml(tree)` that a place begins at.
    private static func line(_ place: [Step], in tree: ConfigurationNode) -> Int {
        let marked = changed(tree, at: place[...]) { entry in
            var entry = entry
            entry.key = "MARK"
            if case .element = place.last { entry.value.content = .scalar("MARK") }
            return entry
        }
        let text = yaml(marked)
        return 1 + (text.firstRange(of: "MARK").map { text[..<$0.lowerBound].count { $0 == "\n" } } ?? 0)
    }

    // MARK: - Tests

    @Test("the document has every key of this version; each changes what it makes, and a reload names it")
    func complete() throws {
        let sound = load(tree).loaded
        #expect(sound.diagnostics == [])
        let configuration = try #require(sound.configuration)
        let places = Self.places(in: tree)
        let held = Set(places.map(path))
        let unbuilt = UnsupportedSetting.all.filter { $0.values == .any }.map(\.path)
        for key in ConfigurationKeys.all where !key.path.hasSuffix("_credential") && !Self.elsewhere.contains(key.path)
        {
            guard !unbuilt.contains(where: { key.path == $0 || key.path.hasPrefix($0 + ".") }) else { continue }
            #expect(held.contains(key.path), "the document lacks \(key.path)")
        }
        #expect(
            ConfigurationChanges(from: sound, to: load(tree).loaded) == ConfigurationChanges(from: sound, to: sound))
        for place in places {
            let without = load(Self.changed(tree, at: place[...]) { _ in nil }).loaded
            let isHeeded = without.configuration != configuration || without.diagnostics != []
            #expect(isHeeded, "\(path(place)) is read for nothing")
            if without.configuration != nil { expectNamed(path(place), ConfigurationChanges(from: sound, to: without)) }
        }
        let known = Set(ConfigurationKeys.all.map(\.path))
        #expect(ConfigurationChanges.livePaths.isSubset(of: known))
    }

    /// A reload names a key that has changed: as applied, or as one that needs a restart.
    private func expectNamed(_ path: String, _ changes: ConfigurationChanges) {
        if Self.isLive(path) {
            #expect(!changes.live.isEmpty && changes.restartOnly.isEmpty, "\(path): \(changes)")
        } else if path == "shutdown" {
            // Of this section the tree has live keys only.
            #expect(changes.live.count >= 2 && changes.restartOnly.isEmpty, "\(changes)")
        } else {
            #expect(!changes.restartOnly.isEmpty, "\(path) is not named")
        }
    }

    /// An entry of a list or a mapping belongs to the key of the whole.
    private static func isLive(_ path: String) -> Bool {
        let whole = path.hasSuffix("[]") || path.hasSuffix(".*") ? String(path.dropLast(2)) : path
        return [path, whole].contains(where: ConfigurationChanges.livePaths.contains)
            || [".set_headers", ".params", ".token_headers", ".permissions", ".claims"].contains { path.contains($0) }
                && ConfigurationChanges.livePaths.contains { path.hasPrefix($0 + ".") }
    }

    @Test("another spelling of the same value is no change")
    func spelling() throws {
        let sound = load(tree).loaded
        let text = Self.yaml(tree).replacing("20s", with: "20000ms")
        let other = ConfigurationLoader.load(Array(text.utf8), path: folder.file("f"))
        let changes = ConfigurationChanges(from: sound, to: other)
        #expect(changes.live.isEmpty && changes.restartOnly.isEmpty, "\(changes)")
    }

    /// Ways to get an entry wrong; nil where one does not apply.
    private static let mistakes:
        [(name: String, make: @Sendable (ConfigurationNode.Entry) -> ConfigurationNode.Entry?)] = [
            ("no value", { Self.with($0, .scalar("")) }),
            ("a value of nonsense", { $0.value.text == nil ? nil : Self.with($0, .scalar("%% nonsense %%")) }),
            ("another name", { $0.value.text == nil ? nil : Self.with($0, .scalar("nobody-knows")) }),
            ("a negative number", { $0.value.text == nil ? nil : Self.with($0, .scalar("-1")) }),
            ("a list", { $0.value.elements.isEmpty ? Self.with($0, .sequence([])) : nil }),
            ("a list in a list", { Self.with($0, .sequence([.init(.sequence([]), at: $0.place)])) }),
            ("a mapping", { $0.value.text == nil ? nil : Self.with($0, .mapping([])) }),
            ("a single value", { $0.value.text == nil ? Self.with($0, .scalar("nonsense")) : nil }),
            (
                "an unknown key",
                { $0.key.isEmpty ? nil : .init(key: "zzzzzz", place: $0.place, value: $0.value) }
            ),
            ("a key that is no name", { $0.key.isEmpty ? nil : .init(key: "a b", place: $0.place, value: $0.value) }),
            (
                "a misspelt key",
                {
                    $0.key.isEmpty
                        ? nil : .init(key: String($0.key.dropLast()) + "qq", place: $0.place, value: $0.value)
                }
            ),
        ]

    private static func with(
        _ entry: ConfigurationNode.Entry, _ content: ConfigurationNode.Content
    ) -> ConfigurationNode.Entry? {
        entry.value.content == content
            ? nil : .init(key: entry.key, place: entry.place, value: .init(content, at: entry.place))
    }

    /// Users and identities may be called anything: under another right name they are others, and what names them is wrong.
    private func isFreeName(_ place: [Step], _ mistake: String) -> Bool {
        ["identities.*", "users.*"].contains(path(place))
            && ["an unknown key", "a misspelt key"].contains(mistake)
    }

    @Test("one mistake is one fault at most, at its place, with the admin API and without", arguments: [true, false])
    func once(hasAdmin: Bool) throws {
        // One mistake at each place, each mistake at every eleventh.
        let shift = hasAdmin ? 0 : Self.mistakes.count / 2
        try check(hasAdmin: hasAdmin, toldMin: 80) { ($0 + shift) % Self.mistakes.count == $1 }
    }

    /// - Parameters:
    ///   - toldMin: how many of the mistakes must be told.
    ///   - isTried: whether a mistake is made at a place, by the numbers of both.
    func check(hasAdmin: Bool, toldMin: Int, isTried: (_ place: Int, _ mistake: Int) -> Bool) throws {
        let tree = hasAdmin ? tree : Self.changed(tree, at: [.key(2)]) { Self.with($0, .scalar("off")) }
        var (told, silent): (Int, [String]) = (0, [])
        for (placeNumber, place) in Self.places(in: tree).enumerated() {
            for (number, mistake) in Self.mistakes.enumerated()
            where isTried(placeNumber, number) && !isFreeName(place, mistake.name) {
                var isApplied = false
                let wrong = Self.changed(tree, at: place[...]) { entry in
                    let made = mistake.make(entry)
                    isApplied = made != nil
                    return made ?? entry
                }
                guard isApplied else { continue }
                let (loaded, text) = load(wrong)
                let what = Comment(rawValue: "\(path(place)): \(mistake.name)")
                #expect(loaded.diagnostics.count <= 1, "\(what): \(loaded.diagnostics)")
                if let error = loaded.diagnostics.first, case .file(_, let line, _) = error.place {
                    let wanted = Self.line(place, in: tree)
                    // A wrong element stands on the line below its list's key.
                    let isWithin = mistake.name == "a list in a list" && line == wanted + 1
                    #expect(line == wanted || isWithin, "\(what): \(error) is told at line \(line) of\n\(text)")
                }
                if loaded.diagnostics.isEmpty { silent.append("\(path(place)): \(mistake.name)") } else { told += 1 }
            }
        }
        #expect(told >= toldMin, "\(told) told; nothing said of \(silent)")
    }
}

/// Each mistake at each place.
@Suite struct LongConfigurationSingleFaultTests {
    @Test("one mistake is one fault at most, at its place, with the admin API and without", arguments: [true, false])
    func everywhere(hasAdmin: Bool) throws {
        try ConfigurationSingleFaultTests().check(hasAdmin: hasAdmin, toldMin: 900) { _, _ in true }
    }
}
