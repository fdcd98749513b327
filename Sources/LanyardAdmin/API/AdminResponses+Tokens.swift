import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions

/// `GET /v1/users/{user}/token`. The bytes are in wiped memory.
extension AdminResponses {
    static func accessTokens(_ tokens: ShownTokens, user: String) -> OperatorResponse {
        var text = SecretBuffer(capacity: tokens.plain.token.count + 256)
        var name = JSONWriter(capacity: 80)
        name.string(user)
        text.append("{\"user\":\(name.text),\"token_type\":\"Bearer\",")
        write(tokens.plain, into: &text)
        if !tokens.variants.isEmpty {
            text.append(",\"tokens\":[")
            for (place, variant) in tokens.variants.enumerated() {
                var members = JSONWriter(capacity: 256)
                members.beginObject()
                writeMembers(of: variant.named, into: &members)
                text.append(place == 0 ? "" : ",")
                text.append(members.text + ",")
                write(variant.token, into: &text)
                text.append("}")
            }
            text.append("]")
        }
        text.append("}")
        return result(text.seal(), status: 200)
    }

    private static func write(_ shown: ShownTokens.Token, into text: inout SecretBuffer) {
        var times = JSONWriter(capacity: 64)
        write(shown.expiry, into: &times)
        text.append("\"access_token\":\"")
        shown.token.withBytes { bytes in
            for byte in bytes {
                // A static token is any visible ASCII.
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { text.append("\\") }
                text.append(byte)
            }
        }
        text.append("\",\"generation\":\(shown.generation.number),")
        if let rest = shown.rest { text.append("\"expires_in\":\(IssuedLifetime.seconds(rest: rest)),") }
        text.append("\"expires_at\":\(times.text)")
    }
}

extension OperatorResponse {
    /// There is no access token now: the problem, the party that must act and the time are those of a request in the same place.
    ///
    /// - Parameters:
    ///   - refusal: why.
    ///   - session: the user as its status shows it; nil: there is no such user any more.
    static func noToken(_ refusal: AccessToken.Refusal, user: String?, session: SessionStatus?) -> OperatorResponse {
        let problem = Problem.noToken(
            refusal, user: user ?? "the user", loginRequiredStatus: AdminProblem.loginRequired.status, at: .now)
        var response = OperatorResponse.problem(
            problem.status, problem.name, problem.title, problem.detail, user: user, isRetryable: problem.isRetryable,
            action: problem.action, remedy: session?.failure?.remedy)
        if let seconds = problem.retryAfter { response.fields.append("Retry-After: \(seconds)") }
        return response
    }

    /// No route asks for such a token.
    static func noSuchToken(known: [String], user: String?) -> OperatorResponse {
        let all = known.isEmpty ? "no route asks for any" : "routes ask for: " + known.joined(separator: "; ")
        return problem(
            .noSuchToken, "No such token",
            "Only access tokens that routes name by token can be had, and none has that audience, these resources and scopes; \(all).",
            user: user)
    }
}
