import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

private let program = "/usr/bin/docker-registry"

/// A container registry behind Lanyard. It names its own origin in each `Location` of an upload, and refuses a request without a token.
@Suite(.enabled(if: access(program, X_OK) == 0, "needs docker-registry (apt-get install docker-registry)"))
struct RegistryTests {
    private static let hosts = ["upstream", "client"]

    /// Of the registry and of its clients.
    private let folder: TemporaryFolder
    private let registry: ServerProcess
    private let origin: String

    init() async throws {
        folder = try TemporaryFolder()
        // `silly` demands a field Authorization and does not read it.
        let file = try folder.write(
            "registry.yml",
            """
            version: 0.1
            log: {level: info}
            storage: {filesystem: {rootdirectory: \(folder.file("data"))}}
            http: {addr: "127.0.0.1:0", secret: of-upload-states}
            auth: {silly: {realm: "http://127.0.0.1/none", service: none}}
            """)
        let process = try ServerProcess(program, ["serve", file])
        var place: Substring?
        try await eventually("the registry listens; it said:\n\(process.log)") {
            guard process.exit == nil else { throw TestFailure("the registry ended: \(process.log)") }
            place = process.log.firstMatch(of: /listening on ([\d.]+:\d+)/)?.1
            return place != nil
        }
        (registry, origin) = (process, "http://\(try #require(place))")
    }

    /// Lanyard in front of it: `/hub` and `/pass` are its `/v2`, everything else has the registry's paths.
    private func lanyard(host: String) async throws -> LanyardProcess {
        let lanyard = try await LanyardProcess.start(
            """
            routes:
            - {name: hub, match: {path: /hub}, upstream: "\(origin)/v2", host: \(host)}
            - {name: pass, match: {path: /pass}, upstream: "\(origin)/v2", redirects: pass}
            - {name: all, match: {path: /}, upstream: "\(origin)", host: \(host)}
            """, token: "registry-token")
        try await lanyard.untilReady()
        return lanyard
    }

    @Test("12.6 The steps of a registry upload stay below the prefix that the client knows", arguments: hosts)
    func upload(host: String) async throws {
        let lanyard = try await lanyard(host: host)
        func step(_ method: String, _ target: String, _ body: String, gives status: Int) async throws -> String {
            let response = try await RawClient.ask(lanyard.data, method, target, body: body)
            #expect(response.status == status, "\(method) \(target): \(response.headText)\(response.bodyText)")
            return response.values("Location").first ?? ""
        }
        let uploads = "/lanyard/trial/blobs/uploads/"
        let begun = try await step("POST", "/hub\(uploads)", "", gives: 202)
        #expect(begun.hasPrefix("/hub\(uploads)"))
        let sent = try await step("PATCH", begun, "hello", gives: 202)
        #expect(sent.hasPrefix("/hub\(uploads)"))
        let digest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        let stored = try await step("PUT", "\(sent)&digest=\(digest)", "", gives: 201)
        #expect(stored == "/hub/lanyard/trial/blobs/\(digest)")
        #expect(try await lanyard.get(stored).bodyText == "hello")

        // As the registry says it. There a client has no token.
        let passed = try await step("POST", "/pass\(uploads)", "", gives: 202)
        #expect(passed.hasPrefix("\(origin)/v2\(uploads)"))
        #expect(try await RawClient.ask(try RawEndpoint(String(origin.dropFirst(7))), "GET", "/v2/").status == 401)
    }

    @Test(
        "12.6 An image is pushed and pulled by a client that follows each Location",
        .enabled(if: access("/usr/bin/skopeo", X_OK) == 0, "needs skopeo (apt-get install skopeo)"), arguments: hosts)
    func image(host: String) async throws {
        let lanyard = try await lanyard(host: host)
        let (image, copy) = (folder.file("image"), folder.file("copy"))
        try FileManager.default.createDirectory(atPath: image, withIntermediateDirectories: true)
        let layer = try await blob(ApacheSite.noise(3_000_000), kind: "image.rootfs.diff.tar.gzip")
        let settings = try await blob(
            Data(#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#.utf8),
            kind: "container.image.v1+json")
        let manifest = """
            {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
             "config": \(settings), "layers": [\(layer)]}
            """
        try folder.write("image/manifest.json", manifest)
        try folder.write("image/version", "Directory Transport Version: 1.1\n")

        let remote = "docker://\(lanyard.data)/lanyard/trial:1"
        try await run("copy", "--preserve-digests", "--dest-tls-verify=false", "dir:\(image)", remote)
        try await run("copy", "--preserve-digests", "--src-tls-verify=false", remote, "dir:\(copy)")
        let names = try FileManager.default.contentsOfDirectory(atPath: image)
        #expect(names.count == 4)
        for name in names {
            #expect(
                FileManager.default.contentsEqual(atPath: "\(image)/\(name)", andPath: "\(copy)/\(name)"), "\(name)")
        }
        try await eventually("its access log, on standard output, has the steps; it has\n\(registry.output)") {
            ["PATCH /v2/", "PUT /v2/", "GET /v2/lanyard/trial/blobs/"].allSatisfy {
                registry.output.contains("\"\($0)")
            }
        }
        #expect(!registry.output.contains("\" 401 "), "\(registry.output)")
    }

    /// Puts a blob into the image, and returns what the manifest says of it.
    private func blob(_ bytes: Data, kind: String) async throws -> String {
        let unnamed = folder.file("blob")
        try bytes.write(to: URL(fileURLWithPath: unnamed))
        let process = try ServerProcess("/usr/bin/sha256sum", [unnamed])
        #expect(try await process.waitForExit() == .code(0))
        let digest = process.output.prefix { $0 != " " }
        try FileManager.default.moveItem(atPath: unnamed, toPath: folder.file("image/\(digest)"))
        return
            #"{"mediaType": "application/vnd.docker.\#(kind)", "size": \#(bytes.count), "digest": "sha256:\#(digest)"}"#
    }

    /// Runs skopeo to its end, which must be a success.
    private func run(_ arguments: String...) async throws {
        let environment = ["HOME": folder.path, "TMPDIR": folder.path, "LANG": "C"]
        let process = try ServerProcess("/usr/bin/skopeo", ["--insecure-policy"] + arguments, environment: environment)
        let exit = try await process.waitForExit()
        guard exit == .code(0) else {
            throw TestFailure("skopeo \(arguments): \(exit)\n\(process.log)\n\(registry.output)\n\(registry.log)")
        }
    }
}
