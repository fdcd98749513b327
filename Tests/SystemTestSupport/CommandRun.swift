import TestSupport
import Testing

/// One run of a command of `lanyard`, to its end.
struct CommandRun: Sendable {
    let exit: ServerProcess.Exit
    /// Standard output.
    let output: String
    /// The lines of standard error.
    let errors: [String]

    /// - Parameter input: the content of standard input; nil: there is none.
    init(_ arguments: [String], environment: [String: String] = [:], input: String? = nil) async throws {
        let folder = try TemporaryFolder()
        let file = try input.map { ServerProcess.Input.file(try folder.write("input", $0)) } ?? .none
        let process = try ServerProcess("lanyard", arguments, environment: environment, input: file)
        exit = try await process.waitForExit()
        output = process.output
        errors = process.lines.map(\.text)
    }

    /// Standard output, which must be one JSON document.
    var json: JSON { get throws { try JSON(text: output) } }
}

/// A scripted admin API: it records requests and gives one response to all of them, or those of a table.
final class ScriptedAdmin: Sendable {
    let server: RawServer
    private let folder: TemporaryFolder
    /// Where commands find it.
    let flags: [String]

    /// The status of a Lanyard whose active user is alice.
    static let status = #"{"version":"0.0.9","uptime_seconds":5,"active_user":"alice","listeners":[],"users":[]}"#

    /// - Parameter responses: by method and target; `GET /v1/status` has one of its own.
    convenience init(_ responses: [String: RawResponse]) throws { try self.init { responses[$0] } }

    /// - Parameter script: the response to a method and target; nil as in the other one.
    init(script: @escaping @Sendable (String) -> RawResponse?) throws {
        folder = try TemporaryFolder()
        server = try RawServer(at: .unix(folder.file("admin.sock"))) { request in
            let call = "\(request.message.method) \(request.message.target)"
            if let response = script(call) { return response }
            if call == "GET /v1/status" { return Self.json(Self.status) }
            return Self.problem(404, "no-route", "Not found", "The admin API has no such path.")
        }
        flags = ["--admin", "unix:\(folder.file("admin.sock"))"]
    }

    /// A response with JSON.
    static func json(_ body: String, status: Int = 200) -> RawResponse {
        .response(status, "OK", fields: [("Content-Type", "application/json")], body: body)
    }

    static func problem(
        _ status: Int, _ name: String, _ title: String, _ detail: String, more: String = ""
    ) -> RawResponse {
        .response(
            status, "X", fields: [("Content-Type", "application/problem+json")],
            body:
                #"{"type":"urn:lanyard:problem:\#(name)","status":\#(status),"title":"\#(title)","detail":"\#(detail)"\#(more)}"#
        )
    }

    /// The requests other than `GET /v1/status`, as `METHOD TARGET BODY`.
    var calls: [String] {
        server.requests.map { "\($0.method) \($0.target) \($0.bodyText)".trimmed }.filter { $0 != "GET /v1/status" }
    }
}

extension String {
    /// Without a space at the end.
    fileprivate var trimmed: String { hasSuffix(" ") ? String(dropLast()) : self }
}
