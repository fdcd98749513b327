import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// nginx behind the built binary: what a client gets is what nginx says.
@Suite(.serialized, .enabled(if: NginxProcess.isInstalled, "needs nginx"))
struct NginxUpstreamTests {
    private let folder: TemporaryFolder
    private let nginx: NginxProcess
    private let lanyard: LanyardProcess
    /// Text that compresses well, and bytes that do not.
    private let text = String(repeating: "a line of text that compresses well\n", count: 10_000)
    private let noise: [UInt8]

    init() async throws {
        folder = try TemporaryFolder()
        var random = SeededGenerator(6)
        noise = random.bytes(1 << 20)
        for name in ["files", "files/folder", "store"] {
            try FileManager.default.createDirectory(atPath: folder.file(name), withIntermediateDirectories: true)
        }
        try folder.write("files/text.txt", text)
        try folder.write("files/empty", "")
        try Data(noise).write(to: URL(fileURLWithPath: folder.file("files/noise")))
        nginx = try await NginxProcess.start(
            """
            location / { root \(folder.file("files")); gzip on; gzip_proxied any; gzip_types text/plain; absolute_redirect off; }
            location /folder/ { root \(folder.file("files")); autoindex on; }
            location /store/ {
              root \(folder.path); dav_methods PUT DELETE MKCOL; client_max_body_size 8m;
            }
            location /seen { return 200 "$request_method|$request_uri|$http_authorization|$http_via|$http_connection"; }
            location /count { return 200 "$connection $connection_requests"; }
            location /nothing { return 204; }
            location /teapot { return 418 "short and stout"; }
            location /closing { keepalive_timeout 0; return 200 "gone"; }
            """, in: folder, http: "keepalive_requests 50;")
        lanyard = try await LanyardProcess.start(before: "\(nginx.endpoint)")
    }

    /// Fields that belong to one connection or one moment.
    private static let ownFields: Set<String> = ["connection", "keep-alive", "date", "transfer-encoding"]

    /// A response but for what may differ; Lanyard prints lengths anew, behind the other fields.
    private static func gist(_ message: RawMessage) -> [String] {
        let fields = message.fields.filter { !ownFields.contains($0.name.lowercased()) }
        return [message.startLine] + fields.filter { $0.name != "Content-Length" }.map { "\($0.name): \($0.value)" }
            + message.values("Content-Length") + ["\(message.bodyCount) bytes, \(message.bodyDigest)"]
    }

    @Test("each response is as nginx gives it: files, ranges, 304, gzip, redirects, errors, listings")
    func responses() async throws {
        let (nginx, data) = (nginx.endpoint, lanyard.data)
        try {
            let through = try RawClient(data)
            func compare(_ method: String, _ target: String, _ fields: [(String, String)] = []) throws -> RawMessage {
                let direct = try RawClient(nginx)
                let expected = try direct.exchange(method, target, host: "localhost", fields: fields)
                let response = try through.exchange(method, target, host: "\(data)", fields: fields)
                #expect(Self.gist(response) == Self.gist(expected), "\(method) \(target) \(fields)")
                return response
            }
            let whole = try compare("GET", "/noise")
            #expect(whole.status == 200 && whole.bodyCount == 1 << 20)
            let tag = try #require(whole["ETag"])
            let since = try #require(whole["Last-Modified"])
            #expect(try compare("HEAD", "/noise")["Content-Length"] == "\(1 << 20)")
            #expect(try compare("GET", "/noise", [("Range", "bytes=1000-1999")]).bodyCount == 1000)
            #expect(try compare("GET", "/noise", [("Range", "bytes=-1")]).status == 206)
            #expect(try compare("GET", "/noise", [("Range", "bytes=2000000-")]).status == 416)
            #expect(try compare("GET", "/noise", [("Range", "bytes=0-9"), ("If-Range", "\"other\"")]).status == 200)
            #expect(try compare("GET", "/noise", [("If-None-Match", tag)]).status == 304)
            #expect(try compare("GET", "/noise", [("If-Modified-Since", since)]).status == 304)
            #expect(try compare("GET", "/noise", [("If-Match", "\"other\"")]).status == 412)
            let packed = try compare("GET", "/text.txt", [("Accept-Encoding", "gzip")])
            #expect(packed["Content-Encoding"] == "gzip" && packed.body.starts(with: [0x1f, 0x8b]))
            #expect(try compare("HEAD", "/text.txt", [("Accept-Encoding", "gzip")]).bodyCount == 0)
            #expect(try compare("GET", "/text.txt").bodyCount == 360_000)
            #expect(try compare("GET", "/empty").bodyCount == 0)
            #expect(try compare("GET", "/folder")["Location"] == "/folder/")
            #expect(try compare("GET", "/folder/").bodyText.contains("Index of"))
            #expect(try compare("GET", "/missing").status == 404)
            #expect(try compare("POST", "/text.txt").status == 405)
            #expect(try compare("GET", "/nothing").status == 204)
            #expect(try compare("GET", "/teapot").status == 418)
            // A close of the upstream's leaves the client's connection open.
            #expect(try compare("GET", "/nothing").status == 204)
            #expect(try through.exchange("GET", "/closing", host: "\(data)")["Connection"] == nil)
            #expect(try through.exchange("GET", "/closing", host: "\(data)").bodyText == "gone")
        }()
    }

    @Test("nginx sees the target as it was sent, one token, our Via, and no Connection field")
    func seen() async throws {
        let data = lanyard.data
        let response = try {
            try RawClient(data).exchange(
                "GET", "/seen/%7Ea//b?x=%20&&", host: "\(data)",
                fields: [("Authorization", "Basic Zm9v"), ("Connection", "close")])
        }()
        let parts = response.bodyText.split(separator: "|", omittingEmptySubsequences: false)
        #expect(parts.prefix(3) == ["GET", "/seen/%7Ea//b?x=%20&&", "Bearer stream-token"])
        #expect(parts[3].wholeMatch(of: /1\.1 lanyard-[0-9a-f]{8}/) != nil)
        #expect(response["Connection"] == "close")
    }

    @Test("uploads arrive whole, by length and in chunks, and deletions too")
    func uploads() async throws {
        let (data, noise) = (lanyard.data, noise)
        do {
            let client = try RawClient(data)
            let put = try client.exchange("PUT", "/store/length", host: "\(data)", body: noise)
            #expect(put.status == 201)
            try client.send("PUT /store/chunks HTTP/1.1\r\nHost: \(data)\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in stride(from: 0, to: noise.count, by: 77_777) {
                let part = noise[start..<min(start + 77_777, noise.count)]
                try client.send(Array("\(String(part.count, radix: 16))\r\n".utf8) + part + Array("\r\n".utf8))
            }
            try client.send("0\r\n\r\n")
            #expect(try client.response().status == 201)
            #expect(try client.exchange("DELETE", "/store/length", host: "\(data)").status == 204)
            #expect(try client.exchange("DELETE", "/store/length", host: "\(data)").status == 404)
        }
        let stored = try Data(contentsOf: URL(fileURLWithPath: folder.file("store/chunks")))
        #expect(Array(stored) == noise)
        #expect(!FileManager.default.fileExists(atPath: folder.file("store/length")))
    }

    @Test("connections to nginx are used again until it has had enough of them, and no request notices")
    func reuse() async throws {
        let data = lanyard.data
        let bodies = try {
            let client = try RawClient(data)
            return try (0..<200).map { _ in
                let response = try client.exchange("GET", "/count", host: "\(data)")
                guard response.status == 200 else { throw TestFailure(response.headText + response.bodyText) }
                return response.bodyText
            }
        }()
        // nginx ends a connection after its fiftieth request.
        let connections = Set(bodies.map { $0.split(separator: " ")[0] })
        #expect(4...5 ~= connections.count, "\(connections.count)")
    }
}
