import Foundation
import LanyardFoundations
import TestSupport

/// Lanyard with two configurations in turn, each with an account and an upstream of its own. The upstreams remember
/// whose tokens they were shown.
final class ReloadedPairs: Sendable {
    /// What gives the route another account.
    enum Change: String, Sendable, CaseIterable {
        /// The route's user moves to another identity.
        case identity
        /// The route follows the active user, and `active_user` names another one.
        case activeUser
        /// The route pins another user. The one before is removed.
        case user
    }

    /// What the clients that were not served got.
    struct Refusals: Sendable {
        /// Retryable 503 responses.
        var retryable = 0
        /// Everything else, in words.
        var others: [String] = []
    }

    let users: ReloadedUsers
    private let change: Change
    private let routes: Int
    /// The upstream of each configuration.
    let upstreams: [TokenWitness]

    /// - Parameters:
    ///   - routes: how many have that account and that upstream.
    ///   - clock: of the services and of Lanyard; nil: real time.
    init(_ change: Change, routes: Int = 1, under clock: TestClock? = nil) async throws {
        users = try await ReloadedUsers(under: clock)
        self.change = change
        self.routes = routes
        upstreams = [try TokenWitness(under: clock), try TokenWitness(under: clock)]
    }

    /// The identity service of the configuration's account.
    func service(of number: Int) -> EmulatorProcess {
        number == 0 || change == .activeUser ? users.first : users.second
    }

    /// The name of the configuration's account.
    private func account(of number: Int) -> String { change == .identity || number == 0 ? "alice" : "bob" }

    /// Writes the configuration of this number, 0 or 1.
    func configure(_ number: Int) throws {
        let all = [users.identity("one", at: users.first), users.identity("two", at: users.second)]
        let name = account(of: number)
        let entries =
            switch change {
            case .identity: [users.user("alice", identity: number == 0 ? "one" : "two")]
            case .activeUser: [users.user("alice", identity: "one"), users.user("bob", identity: "one")]
            case .user: [users.user(name, identity: number == 0 ? "one" : "two")]
            }
        let pin = change == .activeUser ? "" : "user: \(name), "
        let list = (0..<routes).map { route in
            "{name: r\(route), match: {path: /r\(route)}, \(pin)upstream: \"http://\(upstreams[number].server.endpoint)\"}"
        }
        try users.folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "unix:\(users.folder.file("admin.sock"))"}
            store: {path: \(users.folder.file("state/sessions")), key_file: \(users.folder.file("key"))}
            identities: {\(all.joined(separator: ", "))}
            users: {\(entries.joined(separator: ", "))}
            active_user: \(name)
            routes: [\(list.joined(separator: ", "))]
            shards: 2
            log: {access: false}

            """)
    }

    /// A response that is not the upstream's, in `refusals`.
    static func count(_ response: RawMessage, in refusals: inout Refusals) {
        guard response.status != 200 else { return }
        let isRetryable = (try? response.json["retryable"].bool) == true
        if response.status == 503, isRetryable, response["Retry-After"] != nil {
            refusals.retryable += 1
        } else {
            refusals.others.append("\(response.status) \(response.bodyText)")
        }
    }

    /// Requests that carried the token of another configuration's account, in words.
    func wrongPairs() async throws -> [String] {
        var owners: [String: (service: Int, account: String)] = [:]
        for (service, emulator) in [users.first, users.second].enumerated() {
            let names = try await emulator.control("GET", "/users").array.reduce(into: [String: String]()) {
                $0[$1["user_id"].string ?? ""] = $1["email"].string
            }
            for token in try await emulator.issued() {
                owners[token["id"].string ?? ""] = (service, names[token["user_id"].string ?? ""] ?? "")
            }
        }
        return (0..<2).flatMap { number -> [String] in
            let service = service(of: number) === users.first ? 0 : 1
            let expected = (service, "\(account(of: number))@example.com")
            var wrong = upstreams[number].sightings.compactMap { id, sighting -> String? in
                let owner = owners[id] ?? (-1, "nobody")
                guard owner != expected else { return nil }
                return "\(sighting.count) requests to upstream \(number) with a token of \(owner)"
            }
            if upstreams[number].withoutToken > 0 { wrong.append("requests without a token to upstream \(number)") }
            return wrong
        }
    }
}

/// Clients that each send the next request when the response to the last one is there, on a kept connection, and that
/// count what was not served.
final class PairClients: Sendable {
    private struct State {
        var served = 0
        var refusals = ReloadedPairs.Refusals()
        var isStopping = false
        var running = 0
    }

    private let state = Guarded(State())

    /// - Parameter paths: each client takes them in turn.
    init(_ clients: Int, _ endpoint: RawEndpoint, _ paths: [String]) {
        state.withLock { $0.running = clients }
        for client in 0..<clients { Thread.detachNewThread { self.run(client, endpoint, paths) } }
    }

    /// Responses of the upstreams so far.
    var served: Int { state.withLock { $0.served } }

    /// Lets every client finish its request.
    func stop() async throws -> (served: Int, refusals: ReloadedPairs.Refusals) {
        state.withLock { $0.isStopping = true }
        try await eventually("every client has its last response") { state.withLock { $0.running == 0 } }
        return state.withLock { ($0.served, $0.refusals) }
    }

    private func run(_ client: Int, _ endpoint: RawEndpoint, _ paths: [String]) {
        var connection: RawClient?
        var number = client
        while !state.withLock({ $0.isStopping }) {
            do {
                let open = try connection ?? RawClient(endpoint)
                connection = open
                let response = try open.exchange("GET", paths[number % paths.count], host: "\(endpoint)")
                state.withLock { state in
                    if response.status == 200 { state.served += 1 }
                    ReloadedPairs.count(response, in: &state.refusals)
                }
            } catch {
                connection = nil
                state.withLock { $0.refusals.others.append("\(error)") }
            }
            number += 1
        }
        state.withLock { $0.running -= 1 }
    }
}
