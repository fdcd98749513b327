import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The commands that pages of docs/use have in indented blocks: they work as printed. Those of deploying.md and verify.md need packages
/// and containers, and `deploy/check-*` runs them.
@Suite struct PageCommandTests {
    /// Lines with four spaces are the page's, as printed; the others make what the page takes as given.
    private static let walks: [(page: String, script: String)] = [
        (
            "emulator-oauth.md",
            #"""
                lanyard-emulator --oauth
                curl -d grant_type=client_credentials -u demo:demo-secret http://127.0.0.1:7490/oauth/token
            curl -u demo:demo-secret -d scope=openid http://127.0.0.1:7490/oauth/device_authorization
                curl -d '{}' http://127.0.0.1:7490/emulator/oauth/approve
            """#
        ),
        (
            "emulator.md",
            #"""
                lanyard-emulator --demo
                curl http://127.0.0.1:7490/api/client/v2.0/app/demo-abcde/location
                curl -H 'Content-Type: application/json' -d '{"username":"alice@example.com","password":"correct-horse"}' \
                     http://127.0.0.1:7490/api/client/v2.0/app/demo-abcde/auth/providers/local-userpass/login
            """#
        ),
        (
            "emulator.md",
            #"""
            printf 'apps: [{app_id: demo-abcde, name: demo, providers: {local-userpass: {confirmation: email}}}]' >seed.yaml
            lanyard-emulator --seed seed.yaml
            curl -H 'Content-Type: application/json' -d '{"email":"bob@example.com","password":"correct-horse"}' \
                http://127.0.0.1:7490/api/client/v2.0/app/demo-abcde/auth/providers/local-userpass/register
                lanyard-emulator mail bob@example.com
            """#
        ),
        (
            "admin.md",
            #"""
            serve
                S=/run/lanyard/admin.sock
                curl --unix-socket $S http://lanyard/v1/status
                curl --unix-socket $S http://lanyard/v1/users -d '{"name": "bob", "identity": "demo",
                  "credential": {"email_password": {"email": "bob@example.com", "password": "…"}}}'
                curl --unix-socket $S -X POST http://lanyard/v1/users/alice/activate
                curl --unix-socket $S -X POST http://lanyard/v1/users/alice/logout
            """#
        ),
        (
            "logins.md",
            #"""
            serve
                lanyard check --online --login --config lanyard.yaml
            """#
        ),
    ]

    /// A server of the page goes into the background, and a failed request ends the walk.
    private static let prelude = #"""
        set -e -o pipefail
        trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
        curl() { command curl -sS --fail-with-body "$@" && echo; }
        lanyard-emulator() {
            if [ "$1" = mail ]; then
                command lanyard-emulator "$@" --emulator http://127.0.0.1:7490
                return
            fi
            command lanyard-emulator --listen 127.0.0.1:7490 "$@" >emulator.log &
            until command curl -s -o emulator.page http://127.0.0.1:7490/; do kill -0 $!; done
        }
        serve() {
            printf correct-horse >password && chmod 600 password
            printf '%s\n' 'users:' '  - {email: alice@example.com, password: correct-horse}' \
                '  - {email: bob@example.com, password: correct-horse}' >seed.yaml
            lanyard-emulator --seed seed.yaml
            command lanyard run --config lanyard.yaml 2>lanyard.log &
            lanyard wait --config lanyard.yaml
        }

        """#

    private static let configuration = """
        listeners: [{address: "127.0.0.1:7400"}]
        health: {address: "127.0.0.1:7401"}
        admin: {address: "unix:/run/lanyard/admin.sock"}
        identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:7490"}}}
        users: {alice: {identity: demo, login: {email_password: {email: alice@example.com, password_file: password}}}}
        active_user: alice
        routes: [{upstream: "http://127.0.0.1:7490"}]

        """

    private static func isPages(_ line: Substring) -> Bool { line.hasPrefix("    ") }

    @Test("each walk has its page's lines, and works", arguments: walks.indices)
    func works(_ index: Int) async throws {
        let walk = Self.walks[index]
        let page = try String(contentsOfFile: Products.root + "/docs/use/" + walk.page, encoding: .utf8)
        for line in walk.script.split(separator: "\n") where Self.isPages(line) && !line.contains("/register") {
            #expect(page.contains("\n\(line)\n"), "\(line)")
        }
        let folder = try TemporaryFolder()
        let ports = try TutorialTests.freePorts()
        func adapted(_ text: String) -> String {
            ports.reduce(text) { $0.replacing(":\($1.key)", with: ":\($1.value)") }
                .replacing("/run/lanyard/admin.sock", with: folder.file("admin.sock"))
                .replacing("\"…\"", with: "\"correct-horse\"")
        }
        try folder.write("lanyard.yaml", adapted(Self.configuration))
        try folder.write("script", "cd \(folder.path)\n" + adapted(Self.prelude + walk.script) + "\n")
        let programs = URL(fileURLWithPath: try Products.path("lanyard")).deletingLastPathComponent().path
        let shell = try ServerProcess(
            "/bin/bash", [folder.file("script")],
            environment: ["PATH": "\(programs):/usr/local/bin:/usr/bin:/bin", "HOME": folder.path])
        let exit = try await shell.waitForExit()
        let log = (try? String(contentsOfFile: folder.file("lanyard.log"), encoding: .utf8)) ?? ""
        #expect(exit == .code(0), "\(shell.log)\n\(log.suffix(2000))")
    }

    @Test("no other page has indented commands")
    func everyPage() throws {
        let known = Self.walks.flatMap { $0.script.split(separator: "\n").filter(Self.isPages).map(String.init) }
        let folder = Products.root + "/docs/use"
        var found = 0
        for name in try FileManager.default.contentsOfDirectory(atPath: folder)
        where name.hasSuffix(".md") && !["deploying.md", "verify.md"].contains(name) {
            var isFenced = false
            let text = try String(contentsOfFile: folder + "/" + name, encoding: .utf8)
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                if line.hasPrefix("```") { isFenced.toggle() }
                let word = line.dropFirst(4).prefix { $0 != " " && $0 != "=" }
                guard !isFenced, Self.isPages(line), ["curl", "lanyard", "lanyard-emulator", "S"].contains(word) else {
                    continue
                }
                found += 1
                #expect(known.contains(String(line)), "\(name): \(line)")
            }
        }
        #expect(found == 13)
    }
}
