import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

@testable import LanyardBroker

/// A broker, and requests for it as the exchange makes them.
struct BrokerBench {
    let broker: Broker
    let names = UserNames()
    let issued: IssuedTokens

    init(
        _ callers: [BrokerSettings.Caller], serves: Set<BrokerSettings.Interface> = [.token, .oauth2, .gceMetadata],
        variants: [String: [TokenVariant]] = [:], scopes: [String: [String]] = [:]
    ) {
        var settings = BrokerSettings(index: 0)
        (settings.serves, settings.callers) = (serves, callers)
        issued = IssuedTokens(log: Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() })
        broker = Broker(
            settings, capabilities: callers.indices.map { callers[$0].capabilityFile == nil ? nil : $0 },
            variants: variants, scopes: scopes, issued: issued)
        _ = broker.bind(in: names)
    }

    static func caller(
        _ users: String..., uids: [UInt32] = [], capability: Bool = false, audiences: [String]? = nil,
        scopes: [String]? = nil
    ) -> BrokerSettings.Caller {
        var caller = BrokerSettings.Caller(users: users)
        (caller.uids, caller.audiences, caller.scopes) = (uids, audiences, scopes)
        caller.capabilityFile = capability ? "/capability" : nil
        return caller
    }

    /// What the request gets: the index of the user, or the problem with the word of a token endpoint.
    enum Outcome: Equatable, CustomStringConvertible {
        case token(String, to: String, audience: String)
        case refused(Int, String, oauth: String?)
        case response(Int, String)
        case report(String, UInt64)
        case body

        var description: String {
            switch self {
            case .token(let user, let caller, let audience): "token of \(user) \(audience) to \(caller)"
            case .refused(let status, let name, let oauth): "\(status) \(name) \(oauth ?? "")"
            case .response(let status, let text): "\(status): \(text)"
            case .report(let user, let generation): "refusal of \(user) \(generation)"
            case .body: "body"
            }
        }
    }

    func post(
        _ target: String, fields: [(String, String)] = [], body: String? = nil, uid: UInt32? = nil,
        capabilities: [Secret?] = []
    ) -> Outcome {
        outcome(target, method: .post, fields: fields, body: body, uid: uid, capabilities: capabilities)
    }

    /// The form of what is wrong, or would be wrong with the body; nil: neither can be.
    func form(_ target: String, method: RequestHead.Method, uid: UInt32) -> ResponseForm? {
        switch decision(target, method: method, fields: [], body: nil, uid: uid, capabilities: [], active: nil) {
        case .readBody(let form)?, .refuse(_, as: let form)?: form
        case .grant?, .reportRefusal?, .respond?, nil: nil
        }
    }

    func outcome(
        _ target: String, method: RequestHead.Method = .get, fields: [(String, String)] = [], body: String? = nil,
        uid: UInt32? = nil, capabilities: [Secret?] = [], active: UserIndex? = nil
    ) -> Outcome {
        let decision = decision(
            target, method: method, fields: fields, body: body, uid: uid, capabilities: capabilities, active: active)
        return decision.map(shown) ?? .refused(0, "unreadable", oauth: nil)
    }

    /// nil: the head cannot be read.
    private func decision(
        _ target: String, method: RequestHead.Method, fields: [(String, String)], body: String?, uid: UInt32?,
        capabilities: [Secret?], active: UserIndex?
    ) -> GrantDecision? {
        let text =
            "\(method == .get ? "GET" : "POST") \(target) HTTP/1.1\r\nHost: x\r\n"
            + fields.map { "\($0): \($1)\r\n" }.joined() + "\r\n"
        let table = FieldTable(capacity: 32)
        return Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = RequestReader()
            guard let head = try? reader.read(bytes, into: table, limits: HeadLimits(LimitSettings())),
                let parsed = try? RequestTarget.parse(bytes[run: head.target], method: head.kind)
            else { return nil }
            let raw = bytes[run: head.target]
            let client = GrantClient(uid: uid, certificate: nil, capabilities: capabilities)
            return withExtendedLifetime(table) {
                Array((body ?? "").utf8).withUnsafeBytes { body in
                    broker.decide(
                        GrantRequest(
                            method, path: raw[run: parsed.path],
                            query: parsed.query.isEmpty ? raw[run: 0..<0] : raw[run: parsed.query.dropFirst()],
                            bytes, table.all, body: body.isEmpty ? nil : body, from: client, active: active))
                }
            }
        }
    }

    private func shown(_ decision: GrantDecision) -> Outcome {
        switch decision {
        case .readBody: .body
        case .grant(let grant): .token(names[grant.user], to: grant.caller, audience: grant.audience)
        case .reportRefusal(let user, let generation): .report(names[user], generation)
        case .respond(let response):
            .response(response.status, response.body.withBytes { String(decoding: $0, as: UTF8.self) })
        case .refuse(let problem, _): .refused(problem.status, problem.name, oauth: problem.oauthCode?.rawValue)
        }
    }
}
