import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

private let rclone = "/usr/bin/rclone"

/// rclone copies and moves at Apache's mod_dav, which compares the origin of a `Destination` with its own.
@Suite(
    .enabled(
        if: ApacheProcess.isInstalled && access(rclone, X_OK) == 0, "needs Apache and rclone (apt-get install rclone)"))
struct WebDAVTests {
    @Test(
        "10.7 rclone copies and moves below a mapped prefix, with every Host that the upstream may see",
        arguments: [
            "upstream", "client", "{value: localhost}",
        ])
    func rclone(host: String) async throws {
        let site = try await ApacheSite.start(
            """
            LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
            LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
            DavLockDB locks/db
            <Location /inner>
            Dav On
            </Location>
            """)
        for folder in ["www/inner", "locks"] {
            let path = site.apache.folder.file(folder)
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: path)
        }
        let lanyard = try await site.another(path: "/inner", route: "match: {path: /files}, host: \(host)")
        let file = try site.folder.write("a.txt", "text")
        func run(_ verb: String, _ from: String, _ to: String) async throws {
            try await site.run(
                Self.program,
                [
                    verb, "--config", "/dev/null", "--retries", "1", "--low-level-retries", "1", "--webdav-url",
                    "http://\(lanyard.data)/files", "--webdav-vendor", "other", from, to,
                ])
        }
        try await run("copyto", file, ":webdav:a b.txt")
        try await run("copyto", ":webdav:a b.txt", ":webdav:c.txt")
        try await run("moveto", ":webdav:c.txt", ":webdav:d.txt")
        let left = try FileManager.default.contentsOfDirectory(atPath: site.apache.folder.file("www/inner")).sorted()
        #expect(left.filter { $0.hasSuffix(".txt") } == ["a b.txt", "d.txt"], "\(site.accessLog)")
        // By the server, and not by a download and an upload.
        #expect(site.accessLog.contains("COPY /inner/a%20b.txt HTTP/1.1 201"), "\(site.accessLog)")
        #expect(site.accessLog.contains("MOVE /inner/c.txt HTTP/1.1 201"), "\(site.accessLog)")
    }

    private static let program = "/usr/bin/rclone"
}
