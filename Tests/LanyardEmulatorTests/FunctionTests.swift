import Foundation
import LanyardEmulator
import TestSupport
import Testing

/// Functions, streams and push registrations.
@Suite struct FunctionTests {
    typealias Fixture = EmulatorFixture

    private static let configuration = Fixture.app(
        """
            users:
              - {email: alice@example.com, password: correct-horse}
            functions:
              sum: {builtin: sum}
              greet:
                cases:
                  - {arguments: [alice, 1], result: {text: hello, number: 5, long: 5000000000, half: 0.5, list: [1, null, true, "1"]}}
                  - {equals: {user.name: bob}, result: hello bob}
                  - {has: id, result_path: id}
                  - {user: alice@example.com, arguments: [me], result: it is you}
                  - {arguments: [twice], times: 2, result: yes}
                  - {error: "who, %, are you", error_code: BadRequest, status: 422}
              move:
                cases:
                  - {argument: 2, equals: {to.city: Oslo}, result: second}
                  - {argument: 2, contains: {.: north}, result: second text}
                  - {argument: 3, equals: {.: 7}, result: third}
                  - {argument: 2, has: id, result_path: id}
                  - {argument: 2, has: echo, result_path: .}
                  - {equals: {to.city: Rome}, result: first}
                  - {result: none}
              hidden: {private: true, result: 1}
              colour: {set_custom_data: {colour: green}, result: true}
            services:
              mongodb-atlas:
                find: {result: []}
                watch: {events: [{n: 1}, {text: "50 %"}], hold_seconds: 60}
                broken: {error: broken}
            push_services: [gcm]
        """)

    @Test(
        "results are canonical extended JSON; arguments come in both forms",
        arguments: [
            ("sum", "[1,2,3,4,5]", #"{"$numberLong":"15"}"#),
            (
                "sum", #"[{"$numberInt":"1"},{"$numberLong":"9007199254740993"}]"#,
                #"{"$numberLong":"9007199254740994"}"#
            ),
            ("sum", "[1,0.5]", #"{"$numberDouble":"1.5"}"#),
            ("sum", "[]", #"{"$numberLong":"0"}"#),
            (
                "greet", #"["alice",{"$numberLong":"1"}]"#,
                #"{"text":"hello","number":{"$numberInt":"5"},"long":{"$numberLong":"5000000000"},"#
                    + #""half":{"$numberDouble":"0.5"},"list":[{"$numberInt":"1"},null,true,"1"]}"#
            ),
            ("greet", #"[{"user":{"name":"bob"}}]"#, #""hello bob""#),
            (
                "greet", #"[{"id":{"b":1,"a":{"$oid":"0123456789abcdef01234567"}}}]"#,
                #"{"b":{"$numberInt":"1"},"a":{"$oid":"0123456789abcdef01234567"}}"#
            ),
            ("greet", #"["me"]"#, #""it is you""#),
            ("move", #"[{"to":{"city":"Rome"}},{"to":{"city":"Oslo"}}]"#, #""second""#),
            ("move", #"[{"to":{"city":"Oslo"}}]"#, #""none""#), ("move", #"[1,"to the north"]"#, #""second text""#),
            ("move", #"[1,{"id":"x"},{"$numberLong":"7"}]"#, #""third""#), ("move", #"[1,{"id":"x"}]"#, #""x""#),
            ("move", #"[1,{"echo":true}]"#, #"{"echo":true}"#), ("move", #"[{"to":{"city":"Rome"}},0]"#, #""first""#),
            ("move", "[]", #""none""#),
            ("colour", "[]", "true"),
        ])
    func results(name: String, arguments: String, expected: String) async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, _) = try await it.tokens()
        let response = try await it.function(name, arguments, bearer: access)
        #expect(response.status == 200 && response.bodyText == expected)
        #expect(response.values("content-type") == ["application/json"])
        await it.emulator.stop()
    }

    @Test(
        "built-in functions are there without a configuration",
        arguments: [
            ("echo", #"[{"z":1.50,"a":"\u00e4\n"}]"#, #"{"z":{"$numberDouble":"1.5"},"a":"ä\n"}"#),
            ("arguments", "[1,[]]", #"[{"$numberInt":"1"},[]]"#), ("wait", "[1]", "null"),
            ("updateUserData", #"[{"a":1}]"#, "true"), ("customData", "[]", "{}"),
            (
                "echo", #"[{"$date":"1970-01-01T00:00:01.500Z"}]"#, #"{"$date":{"$numberLong":"1500"}}"#
            ),
            (
                "echo", #"[{"$uuid":"00000000-0000-0000-0000-000000000001"}]"#,
                #"{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}}"#
            ),
        ])
    func builtins(name: String, arguments: String, expected: String) async throws {
        let it = try await Fixture()
        let (access, _) = try await it.tokens()
        #expect(try await it.function(name, arguments, bearer: access).bodyText == expected)
        await it.emulator.stop()
    }

    @Test(
        "functions that fail say so",
        arguments: [
            (#"{"name":"nothing","arguments":[]}"#, ["404", "FunctionNotFound", "function not found"]),
            (#"{"name":"greet","arguments":["x"]}"#, ["422", "BadRequest", "who, %, are you"]),
            (#"{"name":"sum","arguments":["x"]}"#, ["400", "FunctionExecutionError", #"argument "x" is no number"#]),
            (
                #"{"name":"hidden","arguments":[]}"#,
                ["400", "NotCallable", "function 'hidden' cannot be called by clients"]
            ),
            (#"{"arguments":[]}"#, ["400", "MissingParameter", "'name' is a required string"]),
            (#"{"name":"sum","arguments":{}}"#, ["400", "InvalidParameter", "'arguments' must be an array"]),
            (#"{"name":"find","arguments":[],"service":"no"}"#, ["404", "ServiceNotFound", "service not found: 'no'"]),
            (
                #"{"name":"drop","arguments":[],"service":"mongodb-atlas"}"#,
                ["404", "ServiceCommandNotFound", "command not found: 'drop'"]
            ),
        ])
    func failures(body: String, expected: [String]) async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, _) = try await it.tokens()
        let path = Fixture.app + "/functions/call"
        #expect(try await Fixture.error(it.call("POST", path, bearer: access, body)) == expected)
        #expect(try await Fixture.error(it.call("POST", path, body)) == ["401", "-", "must authenticate first"])
        await it.emulator.stop()
    }

    @Test("a case with times fits so often, and then no more")
    func times() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, _) = try await it.tokens()
        var statuses: [Int] = []
        for _ in 0..<3 { statuses.append(try await it.function("greet", #"["twice"]"#, bearer: access).status) }
        #expect(statuses == [200, 200, 422])
        await it.emulator.stop()
    }

    @Test("custom data that a function writes is in the next token, not in the one before, and not in the profile")
    func customData() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, refresh) = try await it.tokens()
        #expect(try Fixture.claims(access)["user_data"] == .null)
        _ = try await it.function("colour", bearer: access)
        let next = try await it.refresh(refresh).json["access_token"].string!
        #expect(try Fixture.claims(next)["user_data"] == .object(["colour": .string("green")]))
        #expect(try await it.profile(next)["data"].object.keys.sorted() == ["email"])
        try await it.control(
            "PUT", "/users/custom-data", #"{"user":"alice@example.com","custom_data":{"n":9007199254740993}}"#)
        let last = try await it.refresh(refresh).json["access_token"].string!
        #expect(
            try Fixture.claims(last)["user_data"]
                == .object(["n": .object(["$numberLong": .string("9007199254740993")])]))
        await it.emulator.stop()
    }

    @Test(
        "an unusable access token gets an answer that makes every SDK refresh", arguments: ["word", "a.b.c", "foreign"])
    func unusableToken(kind: String) async throws {
        let it = try await Fixture(), other = try await Fixture()
        let token = kind == "foreign" ? try await other.tokens().access : kind
        let response = try await it.function("sum", bearer: token)
        #expect(response.status == 401)
        #expect(try response.json["error_code"].string == "InvalidSession")
        await it.emulator.stop()
        await other.emulator.stop()
    }

    // MARK: Streams

    private func watch(
        _ it: Fixture, _ call: String, query: String = "baas_request", _ token: String?
    ) async throws -> RawMessage {
        let encoded = Data(call.utf8).base64EncodedString().addingPercentEncoding(
            withAllowedCharacters: .alphanumerics)!
        let suffix = token.map { (query == "baas_request" ? "&baas_at=" : "&stitch_at=") + $0 } ?? ""
        return try await RawClient.ask(
            it.endpoint, "GET", Fixture.app + "/functions/call?\(query)=\(encoded)\(suffix)",
            fields: [("Accept", "text/event-stream")])
    }

    @Test("a function's result comes as one event; a failure comes inside the stream", arguments: ["baas", "stitch"])
    func stream(prefix: String) async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, _) = try await it.tokens()
        let query = prefix + "_request"
        let response = try await watch(it, #"{"name":"sum","arguments":[1,2]}"#, query: query, access)
        #expect(response.status == 200 && response.values("content-type") == ["text/event-stream"])
        #expect(response.bodyText == "data: {\"$numberLong\":\"3\"}\n\n")
        let broken = try await watch(
            it, #"{"name":"broken","arguments":[],"service":"mongodb-atlas"}"#, query: query, access)
        #expect(
            broken.bodyText
                == "event: error\ndata: {\"error\":\"broken\",\"error_code\":\"FunctionExecutionError\"}\n\n")
        let junk = try await it.call("GET", Fixture.app + "/functions/call?\(query)=junk", bearer: access)
        #expect(try Fixture.error(junk).prefix(2) == ["400", "InvalidParameter"])
        let unknown = try await watch(it, #"{"name":"nothing","arguments":[]}"#, query: query, access)
        #expect(try Fixture.error(unknown) == ["404", "FunctionNotFound", "function not found"])
        #expect(try await watch(it, #"{"name":"sum","arguments":[]}"#, query: query, nil).status == 401)
        await it.emulator.stop()
    }

    @Test("an open stream ends with an error when its session is revoked; a new one gets 403")
    func revokedWatch() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, _) = try await it.tokens()
        let call = #"{"name":"watch","arguments":[{}],"service":"mongodb-atlas"}"#
        let endpoint = it.endpoint
        let encoded = Data(call.utf8).base64EncodedString()
        let client = try RawClient(endpoint)
        try client.send(
            "GET \(Fixture.app)/functions/call?baas_request=\(encoded) HTTP/1.1\r\nHost: a\r\n"
                + "Authorization: Bearer \(access)\r\nConnection: close\r\n\r\n")
        var text = ""
        while !text.contains("50 %25") { text += String(decoding: try client.read(1), as: UTF8.self) }
        let revoked = try RawClient(endpoint).exchange("POST", "/emulator/sessions/revoke", body: Array("{}".utf8))
        guard revoked.status == 200 else { throw TestFailure("\(revoked.status)") }
        let lines = text + String(decoding: try client.readToEnd(), as: UTF8.self)
        #expect(lines.contains("data: {\"n\":{\"$numberInt\":\"1\"}}\n\n"))
        #expect(lines.contains("event: error\ndata: {\"error\":"))
        #expect(try await watch(it, call, access).status == 403)
        await it.emulator.stop()
    }

    @Test("push registrations come and go; an unknown service and a call without a user fail")
    func push() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let (access, _) = try await it.tokens()
        let path = Fixture.app + "/push/providers/gcm/registration"
        let body = #"{"registrationToken":"token"}"#
        #expect(try await it.call("PUT", path, bearer: access, body).status == 204)
        #expect(try await it.call("DELETE", path, bearer: access).status == 204)
        #expect(
            try await Fixture.error(it.call("PUT", path.replacing("gcm", with: "gcm_blah"), bearer: access, body))
                == ["404", "ServiceNotFound", "service not found: 'gcm_blah'"])
        #expect(try await it.call("PUT", path, body).status == 401)
        #expect(
            try await Fixture.error(it.call("PUT", path, bearer: access, "{}")) == [
                "400", "MissingParameter", "'registrationToken' is a required string",
            ])
        await it.emulator.stop()
    }
}
