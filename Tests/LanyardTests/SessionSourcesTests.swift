import LanyardConfiguration
import LanyardFoundations
import LanyardSettings
import Logging
import TestSupport
import Testing

@testable import Lanyard
@testable import LanyardIdentity
@testable import LanyardSessions

@Suite struct SessionSourcesTests {
    private static func configuration(_ identities: [String]) throws -> Configuration {
        let text = """
            identities:
            \(identities.map { "  \($0): {app_services: {app_id: a, base_url: \"http://127.0.0.1:1\"}}" }.joined(separator: "\n"))
            users: {alice: {identity: first, login: {anonymous: {}}}}
            routes: [{upstream: "http://127.0.0.1:1"}]
            """
        let loaded = Configuration.load(text: Array(text.utf8), path: "/nowhere/lanyard.yaml")
        return try #require(loaded.configuration, "\(loaded.diagnostics)")
    }

    @Test("each identity has a loop of its own, and secret files have another one")
    func loops() throws {
        let files = try EventLoop(label: "test.files")
        files.start()
        defer { files.stop() }
        let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let sources = SessionSources(
            by: FileReader(), on: files, SecretFileWarning(),
            IdentityTLSWatches(by: FilePublication(), on: files, log: log))
        let made = try sources.make(try Self.configuration(["first", "second", "third"]), IdentityTLS([]))
        let services = made.configuration.identities.compactMap { identity -> AppServicesIdentity? in
            guard case .service(let service as AppServicesIdentity, _) = identity.kind else { return nil }
            return service
        }
        defer { for service in services { service.stop() } }
        #expect(services.count == 3)
        #expect(Set(([files] + services.map(\.loop)).map(ObjectIdentifier.init)).count == 4)
    }
}
