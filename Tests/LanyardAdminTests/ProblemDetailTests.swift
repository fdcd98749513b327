import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// The JSON of problems, which all listeners share.
@Suite struct ProblemDetailTests {
    private static let hostile = "a\"b\\c\r\nd\u{0}e\u{9b}f\u{2028}g"

    @Test("a quote or a control byte in any value stays inside its string, on the request path")
    func requestPath() throws {
        let problem = Problem(
            name: Self.hostile, status: 503, title: Self.hostile, detail: Self.hostile, error: "x", user: Self.hostile)
        let bytes = problem.json(instance: Self.hostile).bytes
        #expect(!bytes.dropLast().contains { $0 < 0x20 })
        let json = try JSON(bytes)
        #expect(json["type"].string == "urn:lanyard:problem:" + Self.hostile)
        for member in ["title", "detail", "message", "instance", "user"] {
            #expect(json[member].string == Self.hostile)
        }
        #expect(json["status"].int == 503)
    }

    @Test("a quote or a control byte in any value stays inside its string, on the operators' listeners")
    func operators() throws {
        let response = OperatorResponse.problem(409, "name-in-use", Self.hostile, Self.hostile, user: Self.hostile)
        #expect(!response.body.contains { $0 < 0x20 })
        let json = try JSON(response.body)
        for member in ["title", "detail", "message", "user"] { #expect(json[member].string == Self.hostile) }
    }

    @Test("both have the same members in the same order")
    func order() {
        let problem = Problem(
            name: "n", status: 503, title: "T", detail: "D", error: "x", user: "u", action: .operator)
        #expect(
            problem.json(instance: "1").text
                == #"{"type":"urn:lanyard:problem:n","status":503,"title":"T","detail":"D","message":"D","instance":"1","#
                + #""retryable":false,"user":"u","action":"operator"}"# + "\n")
        let response = OperatorResponse.problem(503, "n", "T", "D", user: "u")
        #expect(
            String(decoding: response.body, as: UTF8.self)
                == #"{"type":"urn:lanyard:problem:n","status":503,"title":"T","detail":"D","message":"D","#
                + #""retryable":false,"user":"u","action":"operator"}"#)
    }

    @Test("who must act for a user without a session is what its status says, with the latest error of its login")
    func withoutSession() throws {
        let error = "it said 503 x"
        for (state, action, failure, words) in [
            (.loggedOut, .user, nil, "bob has no session; log in first."),
            (.loginRequired, .user, error, "bob has no session; log in first."),
            (.loggedOut, .operator, nil, "its configured login is made when an operator asks for it."),
            (.refused, .operator, error, "bob has no session: it said 503 x."),
            (.loggingIn, .nobody, error, "bob has no session yet: it said 503 x; Lanyard makes the login by itself."),
            (.loggingIn, .nobody, nil, "bob has no session yet; Lanyard makes the login by itself."),
            // A session that has begun since.
            (.valid, .nobody, nil, "bob has no session; log in first."),
        ] as [(SessionState, ResponsibleParty, String?, String)] {
            var status = PlayedUsers.status("bob", 3, state, error: failure)
            status.action = action
            status.failure?.remedy = "mend it"
            let json = try JSON(OperatorResponse.problem(.notLoggedIn, user: "bob", session: status).body)
            let party = state == .valid ? "user" : action.rawValue
            #expect(json["action"].string == party && json["status"].int == 409, "\(state)")
            #expect(json["detail"].string?.hasSuffix(words) == true, "\(json["detail"])")
            #expect(json["retryable"].bool == (party == "nobody"), "\(state)")
            #expect(json["remedy"].string == (failure == nil ? nil : "mend it"), "\(state)")
        }
        #expect(try JSON(OperatorResponse.problem(.notLoggedIn, user: "bob").body)["action"].string == "user")
    }

    @Test("a refresh that has ended the session waits for no party where a configured credential logs in again")
    func endedSession() throws {
        for (canLogIn, party) in [(true, "nobody"), (false, "user")] {
            var status = PlayedUsers.status("bob", 3, .loggingIn)
            status.canLogIn = canLogIn
            for verdict in [IdentityError.Verdict.sessionDead, .unknownOutcome] {
                let error = IdentityError(verdict, status: 400, message: "m")
                let json = try JSON(OperatorResponse.problem(.identity(error), user: "bob", session: status).body)
                #expect(json["action"].string == party, "\(verdict)")
            }
        }
    }

    @Test("only a static identity is told of its token file")
    func notSupported() throws {
        let fixed = try JSON(OperatorResponse.problem(.notSupported, user: "bob").body)
        #expect(fixed["remedy"].string?.contains("token_file") == true)
        let other = OperatorResponse.problem(.noAccounts, user: "bob")
        #expect(!String(decoding: other.body, as: UTF8.self).contains("token_file"))
    }

    @Test("hexadecimal digits keep their leading zeros", arguments: [(0, 1, "0"), (0x1f, 2, "1f"), (0xa, 4, "000a")])
    func hexadecimal(number: UInt32, count: Int, expected: String) {
        #expect(Hex.text(number, count: count) == expected)
    }
}
