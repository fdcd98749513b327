import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// apt over HTTP, through Lanyard, at a repository that demands a token of which apt knows nothing.
@Suite(
    .enabled(
        if: ApacheProcess.isInstalled && access("/usr/bin/apt-get", X_OK) == 0
            && access("/usr/bin/dpkg-deb", X_OK) == 0, "needs Apache, apt-get and dpkg-deb"))
struct AptTests {
    private static let name = "lanyard-trial_1_all.deb"

    private let site: ApacheSite
    private let package: Data
    private let options: [String]

    init() async throws {
        site = try await ApacheSite.start()
        let folder = site.folder
        let control = folder.file("tree/DEBIAN")
        try FileManager.default.createDirectory(atPath: control, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: control)
        let fields = "Package: lanyard-trial\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\n"
        try (fields + "Description: a trial\n").write(toFile: control + "/control", atomically: false, encoding: .utf8)
        try ApacheSite.noise(300_000).write(to: URL(fileURLWithPath: folder.file("tree/content")))
        let www = site.apache.folder.file("www/")
        try await site.run(
            "/usr/bin/dpkg-deb", ["--build", "--root-owner-group", folder.file("tree"), www + Self.name])
        package = try Data(contentsOf: URL(fileURLWithPath: www + Self.name))
        let digest = try await site.run("/usr/bin/sha256sum", [www + Self.name]).prefix { $0 != " " }
        let index =
            "\(fields)Filename: ./\(Self.name)\nSize: \(package.count)\nSHA256: \(digest)\nDescription: a trial\n\n"
        try index.write(toFile: www + "Packages", atomically: false, encoding: .utf8)
        for file in [Self.name, "Packages"] {
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: www + file)
        }

        for path in ["lists/partial", "archives/partial"] {
            try FileManager.default.createDirectory(atPath: folder.file(path), withIntermediateDirectories: true)
        }
        try folder.write("status", "")
        try folder.write("sources.list", "deb [trusted=yes] \(site.url) ./\n")
        options = [
            "Dir::State=\(folder.path)", "Dir::State::lists=\(folder.file("lists"))",
            "Dir::State::status=\(folder.file("status"))", "Dir::Cache=\(folder.path)",
            "Dir::Cache::archives=\(folder.file("archives"))", "Dir::Etc::SourceList=\(folder.file("sources.list"))",
            "Dir::Etc::SourceParts=-", "Dir::Etc::Parts=-", "APT::Sandbox::User=", "Debug::NoLocking=1",
            "Acquire::Languages=none", "Acquire::Retries=0",
        ].flatMap { ["-o", $0] }
    }

    @discardableResult
    private func apt(_ arguments: String...) async throws -> String {
        try await site.run("/usr/bin/apt-get", options + arguments)
    }

    @Test("an index is fetched and confirmed; a package that was cut off is completed by a range")
    func updateAndDownload() async throws {
        try await apt("update")
        #expect(try await apt("update").contains("Hit:"))
        #expect(site.accessLog.contains("GET /./Packages HTTP/1.1 304"), "\(site.accessLog)")

        let half = site.folder.file("archives/partial/\(Self.name)")
        try package.prefix(package.count / 2).write(to: URL(fileURLWithPath: half))
        // apt asks with If-Range for the time of its part. Apache takes a time for weak that is less than a minute ago.
        for path in [half, site.apache.folder.file("www/\(Self.name)")] {
            let time = Date(timeIntervalSince1970: 1_700_000_000)
            try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
        }
        try await apt("install", "--download-only", "--yes", "lanyard-trial")
        let whole = try Data(contentsOf: URL(fileURLWithPath: site.folder.file("archives/\(Self.name)")))
        #expect(whole == package)
        #expect(site.accessLog.contains("/\(Self.name) HTTP/1.1 206"), "\(site.accessLog)")
        #expect(!site.accessLog.contains(" 401"), "\(site.accessLog)")
    }
}
