import Foundation
import LanyardFoundations
import TestSupport

/// An App Services identity that records raw logins, and decides on each as a test wants.
final class LoginService: Sendable {
    /// What becomes of a login.
    enum Verdict: Sendable { case granted, refused }

    /// A login as it came.
    struct Login: Sendable {
        let provider: String
        let body: String
    }

    private struct State {
        var logins: [Login] = []
        var isDead = false
        var lifetime = 1800
    }

    let server: RawServer
    private let state: Shared
    private final class Shared: Sendable { let box = Guarded(State()) }

    /// - Parameters:
    ///   - isReleased: no login has a response before the test sets it.
    ///   - pause: before the response to a login.
    ///   - decide: the verdict on a login, and the account's id.
    init(
        after isReleased: Milestone? = nil, pause: Duration = .zero,
        decide: @escaping @Sendable (Login) -> (Verdict, account: String) = { (.granted, $0.provider) }
    ) throws {
        let state = Shared()
        self.state = state
        server = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let refusal = #"{"error":"unauthorized","error_code":"AuthError"}"#
            let parts = request.message.target.split(separator: "/")
            switch (request.message.method, parts.last ?? "") {
            case (_, "location"): return .response(fields: json, body: #"{"hostname":""}"#)
            case (_, "login"):
                let login = Login(provider: String(parts.dropLast().last ?? ""), body: request.message.bodyText)
                let number = state.box.withLock { state in
                    state.logins.append(login)
                    state.isDead = false
                    return state.logins.count
                }
                let (verdict, account) = decide(login)
                isReleased?.wait(for: "the logins may have their responses")
                let lifetime = state.box.withLock { $0.lifetime }
                guard verdict == .granted else {
                    return .response(401, "Unauthorized", fields: json, body: refusal).after(pause)
                }
                let body =
                    #"{"access_token":"\#(Self.token(lifetime))","refresh_token":"refresh-\#(number)","user_id":"\#(account)"}"#
                return .response(fields: json, body: body).after(pause)
            case ("POST", "session"):
                let (isDead, lifetime) = state.box.withLock { ($0.isDead, $0.lifetime) }
                if isDead { return .response(401, "Unauthorized", fields: json, body: refusal) }
                return .response(201, "Created", fields: json, body: #"{"access_token":"\#(Self.token(lifetime))"}"#)
            default: return .response(204, "No Content", body: "")
            }
        }
    }

    /// All logins so far.
    var logins: [Login] { state.box.withLock { $0.logins } }

    /// The life of the access tokens from now on, in seconds.
    func setLifetime(_ seconds: Int) { state.box.withLock { $0.lifetime = seconds } }

    /// Every session ends. The next refresh learns of it.
    func endSessions() { state.box.withLock { $0.isDead = true } }

    private static func token(_ seconds: Int) -> String {
        let now = Int(Date.now.timeIntervalSince1970)
        return Tokens.jwt(#"{"iat":\#(now),"exp":\#(now + seconds)}"#)
    }

    /// A JWT that expires so many seconds from now; nil: never. `name` tells it from others.
    static func jwt(_ name: String, expiresIn seconds: Int? = nil) -> String {
        let end = seconds.map { #","exp":\#(Int(Date.now.timeIntervalSince1970) + $0)"# } ?? ""
        return Tokens.jwt(#"{"sub":"\#(name)"\#(end)}"#, signature: "c2lnbmF0dXJl")
    }

    /// The configuration of users at this service, in front of an upstream.
    ///
    /// - Parameters:
    ///   - users: names with their logins, in YAML.
    ///   - store: keeps sessions in `folder`.
    func configuration(
        _ users: [(name: String, login: String)], upstream: RawEndpoint, store folder: TemporaryFolder? = nil,
        rest: String = ""
    ) throws -> String {
        var text = ""
        if let folder {
            try folder.write("key", String(repeating: "k", count: 64))
            text += "store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}\n"
        }
        text +=
            "identities: {demo: {app_services: {app_id: demo-abcde, base_url: \"http://\(server.endpoint)\"}}}\nusers:\n"
        for user in users { text += "  \(user.name): {identity: demo, login: {\(user.login)}}\n" }
        text += "routes:\n  - {name: all, upstream: \"http://\(upstream)\"}\n"
        for user in users {
            text +=
                "  - {name: \(user.name), match: {path: /as/\(user.name)}, user: \(user.name), upstream: \"http://\(upstream)\"}\n"
        }
        return text + rest
    }
}
