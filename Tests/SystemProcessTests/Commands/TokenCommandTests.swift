import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard token` with a scripted admin API or broker: what it asks, what it prints, and how it ends.
@Suite struct TokenCommandTests {
    private static let token = "ey.a-b/c"
    private static let response =
        #"{"access_token":"\#(token)","token_type":"Bearer","user":"alice","generation":7,"expires_in":1795}"#

    /// A broker that gives each caller the same response.
    private static func broker(_ response: RawResponse = ScriptedAdmin.json(response)) throws -> RawServer {
        try RawServer { _ in response }
    }

    private static func targets(_ server: RawServer) -> [String] { server.requests.map { "\($0.method) \($0.target)" } }

    @Test("from the admin API: of the named or the active user, with what a route asks for; in each form")
    func admin() async throws {
        let admin = try ScriptedAdmin { call in
            call.hasPrefix("GET /v1/users/") ? ScriptedAdmin.json(Self.response) : nil
        }
        for (arguments, call, output) in [
            (["bob"], "GET /v1/users/bob/token", Self.token), ([], "GET /v1/users/alice/token", Self.token),
            (["active"], "GET /v1/users/alice/token", Self.token),
            (
                ["bob", "--audience", "https://a/", "--scope", "read", "--scope", "write", "--resource", "urn:r"],
                "GET /v1/users/bob/token?audience=https%3a%2f%2fa%2f&resource=urn%3ar&scope=read%20write", Self.token
            ),
            (["bob", "--header"], "GET /v1/users/bob/token", "Authorization: Bearer " + Self.token),
            (["bob", "--json"], "GET /v1/users/bob/token", Self.response),
        ] as [([String], String, String)] {
            let run = try await CommandRun(["token"] + arguments + admin.flags)
            #expect(run.exit == .code(0) && run.errors.isEmpty, "\(run.errors)")
            #expect(run.output == output + "\n" && admin.calls.last == call)
        }
    }

    @Test("an ExecCredential: kubectl's version is the version of the response; another one is not asked for a token")
    func execCredential() async throws {
        let broker = try Self.broker()
        let flags = ["token", "alice", "--exec-credential", "--broker", "http://\(broker.endpoint)/"]
        for (info, version) in [(nil, "v1"), ("v1", "v1"), ("v1beta1", "v1beta1")] {
            let variable = info.map { #"{"apiVersion":"client.authentication.k8s.io/\#($0)","kind":"ExecCredential"}"# }
            let start = WallTime.now
            let run = try await CommandRun(flags, environment: variable.map { ["KUBERNETES_EXEC_INFO": $0] } ?? [:])
            #expect(run.exit == .code(0), "\(run.errors)")
            #expect(try run.json["apiVersion"].string == "client.authentication.k8s.io/\(version)")
            #expect(try run.json["kind"].string == "ExecCredential")
            #expect(try run.json["status"]["token"].string == Self.token)
            let end = try #require(Timestamp.readDateTime(run.json["status"]["expirationTimestamp"].string ?? ""))
            #expect(end - start > .seconds(1793) && end - .now <= .seconds(1795))
        }
        let asked = Self.targets(broker)
        #expect(asked == Array(repeating: "GET /v1/token?user=alice", count: 3))
        let variable = #"{"apiVersion":"client.authentication.k8s.io/v1alpha1"}"#
        let run = try await CommandRun(flags, environment: ["KUBERNETES_EXEC_INFO": variable])
        #expect(run.exit == .code(64) && run.output.isEmpty && Self.targets(broker) == asked)
        #expect(run.errors.joined().contains("kubeconfig"))
    }

    @Test("git's credential helper: get prints user name and password; store, erase and what is unknown ask nothing")
    func git() async throws {
        let broker = try Self.broker()
        let flags = ["token", "alice", "--broker", "http://\(broker.endpoint)", "--git-credential"]
        let input = "protocol=https\nhost=git.example\n\n"
        let got = try await CommandRun(flags + ["get"], input: input)
        #expect(got.exit == .code(0), "\(got.errors)")
        let lines = got.output.split(separator: "\n").map(String.init)
        try #require(lines.count == 3)
        #expect(lines[0] == "username=oauth2" && lines[1] == "password=" + Self.token)
        let end = try #require(Int64(lines[2].trimmingPrefix("password_expiry_utc=")))
        #expect(WallTime(seconds: end) - .now > .seconds(1700))
        let named = try await CommandRun(flags + ["get"], input: "protocol=https\nusername=bob\n")
        #expect(named.output.hasPrefix("username=bob\npassword="))
        let count = broker.requests.count
        for operation in ["store", "erase", "capability"] {
            let run = try await CommandRun(flags + [operation], input: input + "password=x\n")
            #expect(run.exit == .code(0) && run.output.isEmpty && run.errors.isEmpty, "\(operation): \(run.errors)")
        }
        let plain = try await CommandRun(flags + ["get"], input: "protocol=http\nhost=git.example\n")
        #expect(plain.exit == .code(64) && plain.output.isEmpty && plain.errors.joined().contains("https://"))
        #expect(broker.requests.count == count)
    }

    @Test("a broker on a unix socket gets the capability in its field; the admin API is not asked")
    func capability() async throws {
        let folder = try TemporaryFolder()
        let broker = try RawServer(at: .unix(folder.file("broker.sock"))) { _ in ScriptedAdmin.json(Self.response) }
        let file = try folder.write("capability", "capability-of-32-characters-or-more\n")
        let run = try await CommandRun([
            "token", "--audience", "orders", "--broker", "unix:\(folder.file("broker.sock"))", "--capability-file",
            file,
        ])
        #expect(run.exit == .code(0) && run.output == Self.token + "\n", "\(run.errors)")
        let request = try #require(broker.requests.first)
        #expect(request.target == "/v1/token?audience=orders" && request["Host"] == "localhost")
        #expect(request["Lanyard-Capability"] == "capability-of-32-characters-or-more")
        #expect(request["Authorization"] == nil && broker.requests.count == 1)
    }

    @Test(
        "a problem of a broker: what it is, what to do, and whether a repeat may help",
        arguments: [
            (503, "identity-unreachable", true, 75, "check the identity service"),
            (503, "overloaded", true, 75, "repeat the command"),
            (503, "login-required", false, 1, "lanyard login alice"),
            (503, "credential-refused", false, 77, "credential"),
            (403, "caller-not-allowed", false, 77, "--capability-file"),
            (404, "no-such-token", false, 1, "name the audience"), (404, "no-route", false, 1, "give --broker"),
        ])
    func problems(_ status: Int, _ name: String, _ isRetryable: Bool, _ code: Int, _ remedy: String) async throws {
        let more = #","user":"alice","retryable":\#(isRetryable)"#
        let broker = try Self.broker(ScriptedAdmin.problem(status, name, "The title", "The detail.", more: more))
        let flags = ["token", "--broker", "http://\(broker.endpoint)"]
        let run = try await CommandRun(flags)
        #expect(run.exit == .code(code) && run.output.isEmpty, "\(run.errors)")
        try #require(run.errors.count == 2)
        #expect(run.errors[0] == "error: The title: The detail" && run.errors[1].contains(remedy), "\(run.errors)")
        let json = try await CommandRun(flags + ["--json"])
        #expect(try json.exit == .code(code) && json.json["type"].string == "urn:lanyard:problem:\(name)")
    }

    @Test("the same of the admin API: a token that may come later is 75")
    func adminProblems() async throws {
        let more = #","user":"alice","retryable":true"#
        let admin = try ScriptedAdmin([
            "GET /v1/users/alice/token": ScriptedAdmin.problem(
                503, "identity-unreachable", "Title", "Detail.", more: more)
        ])
        #expect(try await CommandRun(["token"] + admin.flags).exit == .code(75))
    }

    @Test("what is no broker, or gives no token, is 69")
    func foreign() async throws {
        let absent = try await CommandRun(["token", "--broker", "unix:/nonexistent/broker.sock"])
        #expect(absent.exit == .code(69) && absent.errors.joined().contains("no broker responds"), "\(absent.errors)")
        for body in ["{}", #"{"access_token":"a\nb"}"#, #"{"access_token":"\u001b[31m"}"#, "token", "[]"] {
            let server = try Self.broker(ScriptedAdmin.json(body))
            let run = try await CommandRun(["token", "--broker", "http://\(server.endpoint)"])
            #expect(run.exit == .code(69) && run.output.isEmpty && run.errors.count == 2, "\(body): \(run.errors)")
        }
    }

    @Test(
        "wrong usage is 64, and nothing is asked",
        arguments: [
            ["--broker", "https://broker.example"], ["--broker", "http://broker.example:7410"], ["--broker", "broker"],
            ["--broker", "http://127.0.0.1:0"], ["--broker", "http://127.0.0.1:7410/v1"],
            ["--broker", "unix:/x", "--admin", "unix:/y"], ["--capability-file", "/x"],
            ["--header", "--exec-credential"],
            ["--json", "--header"], ["--watch", "--git-credential", "get"], ["--audience", ""], ["a b"],
        ])
    func usage(_ arguments: [String]) async throws {
        let run = try await CommandRun(["token"] + arguments)
        #expect(run.exit == .code(64) && run.output.isEmpty && !run.errors.isEmpty, "\(arguments): \(run.errors)")
    }

    @Test("--watch prints a token when it changes, says what fails and tries again, and ends by a signal")
    func watch() async throws {
        let count = Tally()
        let broker = try RawServer { _ in
            count.add()
            return switch count.value {
            case 1, 2: ScriptedAdmin.json(#"{"access_token":"one","expires_in":1}"#)
            case 3: ScriptedAdmin.problem(503, "overloaded", "Overloaded", "Too many.")
            default: ScriptedAdmin.json(#"{"access_token":"two","expires_in":60}"#)
            }
        }
        let command = try ServerProcess(
            "lanyard", ["token", "--watch", "--header", "--broker", "http://\(broker.endpoint)"])
        try await eventually("both tokens are printed") {
            command.output == "Authorization: Bearer one\nAuthorization: Bearer two\n"
        }
        #expect(count.value == 4 && command.lines.map(\.text).first == "error: Overloaded: Too many")
        #expect(try await command.terminate() == .signal(Int(SIGTERM)))
    }

    @Test("--watch ends when the reader of its output is gone, long before it would ask again")
    func closedOutput() async throws {
        let broker = try Self.broker()
        let line = "\"$0\" token --watch --broker http://\(broker.endpoint) | head -n 1; echo ended"
        let shell = try ServerProcess("/bin/sh", ["-c", line, Products.path("lanyard")])
        #expect(try await shell.waitForExit() == .code(0))
        #expect(shell.output == Self.token + "\nended\n")
    }
}
