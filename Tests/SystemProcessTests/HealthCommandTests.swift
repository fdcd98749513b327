import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard health`: a probe for images without curl.
@Suite struct HealthCommandTests {
    private func health(
        _ arguments: [String], environment: [String: String] = [:]
    ) async throws -> (exit: ServerProcess.Exit, errors: String) {
        let process = try ServerProcess("lanyard", ["health"] + arguments, environment: environment)
        let exit = try await process.waitForExit()
        return (exit, process.log)
    }

    @Test("a 200 is exit 0 and says nothing, also from a server that keeps the connection open")
    func healthy() async throws {
        let server = try RawServer()
        let outcome = try await health(["--health", "\(server.endpoint)"])
        #expect(outcome.exit == .code(0))
        #expect(outcome.errors == "")
        #expect(
            server.requests.map { $0.headText }.first?.hasPrefix(
                "GET /livez HTTP/1.1\r\nHost: \(server.endpoint)\r\nConnection: close\r\n") == true)
        #expect(try await health(["--ready", "--health", "\(server.endpoint)"]).exit == .code(0))
        #expect(server.requests.last?.headText.hasPrefix("GET /readyz HTTP/1.1\r\n") == true)
    }

    @Test(
        "anything else is exit 1 with the reason",
        arguments: [
            (RawResponse.response(503, "Service Unavailable", body: "{\"status\": \"not_ready\"}"), "503"),
            (.close, "closed without a response"), (.reset, "Connection reset by peer"),
            (RawResponse.text("HTTP/1.1 200 OK\r\nContent-").closing, "an incomplete response"),
            (RawResponse.text("SSH-2.0-x\r\n\r\n").closing, "not an HTTP response"),
            (RawResponse([]), "no response in time"),
        ] as [(RawResponse, String)])
    func unhealthy(_ response: RawResponse, _ words: String) async throws {
        let server = try RawServer { _ in response }
        let outcome = try await health(["--health", "\(server.endpoint)"])
        #expect(outcome.exit == .code(1))
        #expect(outcome.errors.contains(words), "\(outcome.errors)")
    }

    @Test("what is wrong has a line that says what to do", arguments: ["heartbeat_late", "draining", "a_new_reason"])
    func remedy(_ reason: String) async throws {
        let body = #"{"status":"not_ready","checks":[{"name":"x","ok":false,"reason":"\#(reason)"}]}"#
        let server = try RawServer { _ in .response(503, "Service Unavailable", body: body) }
        let lines = try await health(["--health", "\(server.endpoint)"]).errors.split(separator: "\n")
        #expect(
            lines.count == 3 && lines[1] == "failing: x: \(reason)" && lines[2].hasPrefix("what to do: "), "\(lines)")
    }

    @Test("no server is exit 1, and an address that is none is a usage error")
    func nobody() async throws {
        let folder = try TemporaryFolder()
        let outcome = try await health(["--health", "unix:\(folder.file("none.sock"))"])
        #expect(outcome.exit == .code(1))
        #expect(outcome.errors.contains("No such file or directory"))
        #expect(try await health(["--health", "example.com:80"]).exit == .code(64))
        #expect(try await health(["--health", "127.0.0.1:1", "--config", "x"]).exit == .code(64))
    }

    @Test("the address comes from the file or the environment; health that is off is exit 1")
    func address() async throws {
        let folder = try TemporaryFolder()
        let server = try RawServer(at: .unix(folder.file("health.sock")))
        let path = try folder.write("lanyard.yaml", "health: {address: \"\(server.endpoint)\"}\n")
        #expect(try await health(["--config", path]).exit == .code(0))
        #expect(try await health([], environment: ["LANYARD_CONFIG": path]).exit == .code(0))
        #expect(try await health([], environment: ["LANYARD_HEALTH_ADDRESS": "\(server.endpoint)"]).exit == .code(0))
        let off = try folder.write("off.yaml", "health: off\n")
        let outcome = try await health(["--config", off])
        #expect(outcome.exit == .code(1))
        #expect(
            outcome.errors == """
                error: the configuration names no health listener that can be asked
                what to do: set health.address and restart Lanyard, or give --health its address
                """)
    }

    @Test("a configuration that is missing, or hides the address, is exit 1 with its name and the reason")
    func hidden() async throws {
        let folder = try TemporaryFolder()
        let missing = folder.file("none.yaml")
        for outcome in try await [
            health(["--config", missing]), health(["--ready"], environment: ["LANYARD_CONFIG": missing]),
        ] {
            #expect(outcome.exit == .code(1))
            #expect(
                outcome.errors
                    == "error: \(missing): cannot read the configuration file: No such file or directory; "
                    + "check --config or LANYARD_CONFIG")
        }
        let wrong = try folder.write("wrong.yaml", "health: {address: here}\n")
        let outcome = try await health(["--config", wrong])
        #expect(outcome.exit == .code(1))
        #expect(outcome.errors.hasPrefix("error: \(wrong):1:19: health.address: \"here\" has no port"))
        let variable = try await health([], environment: ["LANYARD_HEALTH_ADDRESS": "here"])
        #expect(variable.exit == .code(1) && variable.errors.contains("LANYARD_HEALTH_ADDRESS: health.address: "))
    }

    @Test("a unix socket without room for another connection is asked again until the timeout")
    func crowded() async throws {
        let folder = try TemporaryFolder()
        let crowd = try CrowdedSocket(at: folder.file("health.sock"))
        let outcome = try await health(["--health", "unix:\(crowd.path)"])
        #expect(outcome.exit == .code(1))
        #expect(outcome.errors.hasPrefix("error: /livez of unix:\(crowd.path): no response in time\n"))
    }

    @Test("a unix socket that has room again in time is healthy")
    func crowdedForMoments() async throws {
        let folder = try TemporaryFolder()
        let crowd = try CrowdedSocket(at: folder.file("health.sock"))
        let process = try ServerProcess("lanyard", ["health", "--health", "unix:\(crowd.path)"])
        if DescriptorTable.isReadable {
            try await eventually("it tries to connect") { !DescriptorTable.sockets(of: process.pid).isEmpty }
        }
        do {
            #expect(crowd.accepted() == crowd.clientCount)
            let client = try #require(crowd.listener.accept())
            #expect(try String(decoding: client.receive(), as: UTF8.self).hasPrefix("GET /livez "))
            try client.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8))
        }
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
    }
}

/// How long a probe takes at most. Alone, since what else runs on the machine would be measured, too.
@Suite struct AloneHealthCommandTests {
    @Test("a health listener that says nothing is given up within 4.5 s, the start of the process included")
    func inTime() async throws {
        let server = try RawServer { _ in RawResponse([]) }
        let started = ContinuousClock.now
        let process = try ServerProcess("lanyard", ["health", "--health", "\(server.endpoint)"])
        let exit = try await process.waitForExit()
        let time = ContinuousClock.now - started
        #expect(exit == .code(1))
        #expect(process.log.contains("no response in time"), "\(process.log)")
        #expect(time < .seconds(4.5))
    }
}
