import Foundation
import TestSupport

/// An App Services application of a few accounts, played by a plain socket: what the emulator of this repository does not serve,
/// and what no emulator does on request.
final class PlayedService: Sendable {
    static let app = "demo-abcde"
    static let client = "/api/client/v2.0"

    /// The response to one request; nil gives the response of a healthy service.
    typealias Script = @Sendable (_ request: RawMessage, _ path: String) -> RawResponse?

    struct State {
        /// The account ids that exist; a login with `x@…` ends in `x`.
        var deleted: Set<String> = []
        var tokens = 0
        var script: Script = { _, _ in nil }
        /// Of the calls so far, without location.
        var calls: [String] = []
    }

    let state = Box(State())
    let server: RawServer

    /// A value that one thread at a time may use.
    final class Box<Value>: @unchecked Sendable {
        private let lock = NSLock()
        private var value: Value

        init(_ value: Value) { self.value = value }

        func with<Result>(_ body: (inout Value) -> Result) -> Result {
            lock.lock()
            defer { lock.unlock() }
            return body(&value)
        }
    }

    init() throws {
        let state = state
        server = try RawServer { request in
            let path = request.message.target
            if path.hasSuffix("/location") { return Self.json(200, #"{"hostname":""}"#) }
            let script = state.with { state -> Script in
                state.calls.append("\(request.message.method) \(path)")
                return state.script
            }
            return script(request.message, path) ?? Self.healthyResponse(request.message, path, state)
        }
    }

    var endpoint: RawEndpoint { server.endpoint }
    /// Method and path of each call but location.
    var calls: [String] { state.with { $0.calls } }
    func plays(_ script: @escaping Script) { state.with { $0.script = script } }
    func count(_ call: String) -> Int { calls.count { $0.hasSuffix(call) } }

    static func json(_ status: Int, _ body: String) -> RawResponse {
        .response(status, "X", fields: [("Content-Type", "application/json")], body: body).closing
    }

    static func error(_ status: Int, _ code: String, _ text: String = "unauthorized") -> RawResponse {
        json(status, #"{"error":"\#(text)","error_code":"\#(code)"}"#)
    }

    /// A JWT whose subject is the account; the number makes each different.
    static func token(_ account: String, _ kind: String, _ number: Int) -> String {
        let now = Int(Date().timeIntervalSince1970)
        return Tokens.jwt(
            #"{"sub":"\#(account)","typ":"\#(kind)","n":\#(number),"iat":\#(now),"exp":\#(now + 1800),"user_data":{"n":\#(number)}}"#,
            signature: "\(account)-\(kind)-\(number)")
    }

    /// The account that a bearer token names in its last part.
    static func account(of request: RawMessage) -> String {
        let last = (request["Authorization"] ?? "").split(separator: ".").last ?? ""
        return String(last.split(separator: "-").first ?? "")
    }

    private static func healthyResponse(_ request: RawMessage, _ path: String, _ state: Box<State>) -> RawResponse {
        let number = state.with { state -> Int in
            state.tokens += 1
            return state.tokens
        }
        let account = account(of: request)
        let isGone = state.with { $0.deleted.contains(account) }
        switch (request.method, path) {
        case (_, let path) where path.hasSuffix("/login"):
            let name = path.contains("anon-user") ? "guest\(number)" : login(request)
            guard !state.with({ $0.deleted.contains(name) }) else { return error(401, "InvalidPassword") }
            let refresh = token(name, "refresh", number)
            return json(
                200,
                #"{"access_token":"\#(token(name, "access", number))","refresh_token":"\#(refresh)","user_id":"\#(name)"}"#
            )
        case (_, let path) where path.hasSuffix("/login?link=true"):
            return json(200, #"{"access_token":"\#(token(account, "access", number))","user_id":"\#(account)"}"#)
        case ("POST", client + "/auth/session"):
            guard !isGone else { return error(401, "InvalidSession") }
            return json(201, #"{"access_token":"\#(token(account, "access", number))"}"#)
        case ("DELETE", client + "/auth/session"): return isGone ? error(401, "InvalidSession") : json(204, "")
        case ("GET", client + "/auth/profile"):
            let identities =
                #"[{"id":"i","provider_type":"anon-user"},{"id":"j","provider_type":"local-userpass"}]"#
            return json(
                200, #"{"user_id":"\#(account)","identities":\#(identities),"data":{},"type":"normal"}"#)
        case ("DELETE", client + "/auth/delete"):
            _ = state.with { $0.deleted.insert(account) }
            return json(204, "")
        default: return json(200, #"{"_id":"k","name":"n","disabled":false,"key":"s3cret-key"}"#)
        }
    }

    private static func login(_ request: RawMessage) -> String {
        let name = (try? request.json["username"].string) ?? "unknown"
        return String(name.prefix { $0 != "@" })
    }
}
