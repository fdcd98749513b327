import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

private let backend = "/usr/lib/git-core/git-http-backend"

/// git over HTTP, through Lanyard, at a server that demands a token of which git knows nothing.
@Suite(
    .enabled(
        if: ApacheProcess.isInstalled && access(backend, X_OK) == 0,
        "needs Apache and git (apt-get install git)"))
struct GitTests {
    private static let environment = [
        "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.com",
    ]

    private let site: ApacheSite
    /// The server's repository is in it.
    private let repositories: TemporaryFolder

    init() async throws {
        repositories = try TemporaryFolder(shared: true)
        // Apache's user is not the owner of the repository.
        site = try await ApacheSite.start(
            """
            LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
            LoadModule env_module /usr/lib/apache2/modules/mod_env.so
            LoadModule cgid_module /usr/lib/apache2/modules/mod_cgid.so
            ScriptSock \(repositories.file("cgi.sock"))
            SetEnv GIT_PROJECT_ROOT \(repositories.path)
            SetEnv GIT_HTTP_EXPORT_ALL 1
            SetEnv GIT_CONFIG_COUNT 1
            SetEnv GIT_CONFIG_KEY_0 safe.directory
            SetEnv GIT_CONFIG_VALUE_0 *
            ScriptAlias /git/ \(backend)/
            Redirect 301 /git/old.git /git/all.git
            """)
        let bare = repositories.file("all.git")
        try await git(["init", "--quiet", "--bare", "--initial-branch=main", "--shared=0777", bare])
        try await git(["--git-dir", bare, "config", "http.receivepack", "true"])
    }

    @discardableResult
    private func git(_ arguments: [String]) async throws -> String {
        try await site.run("/usr/bin/git", arguments, environment: Self.environment)
    }

    private var remote: String { "\(site.url)/git/all.git" }

    /// Commits a file of bytes that cannot be compressed.
    private func commit(_ work: String, _ name: String, bytes: Int) async throws {
        try ApacheSite.noise(bytes).write(to: URL(fileURLWithPath: "\(work)/\(name)"))
        try await git(["-C", work, "add", name])
        try await git(["-C", work, "commit", "--quiet", "-m", name])
    }

    @Test("a push beyond git's buffer goes up in chunks; clones, shallow ones and fetches bring the same commits")
    func pushAndClone() async throws {
        let work = site.folder.file("work")
        try await git(["init", "--quiet", "--initial-branch=main", work])
        try await commit(work, "small", bytes: 100)
        try await git(["-C", work, "push", "--quiet", remote, "main"])
        // Above http.postBuffer (1 MiB) git does not know the length.
        try await commit(work, "large", bytes: 1_500_000)
        try await git(["-C", work, "push", "--quiet", remote, "main"])
        let head = try await git(["-C", work, "rev-parse", "main"])
        #expect(try await git(["ls-remote", remote, "refs/heads/main"]).hasPrefix(head.dropLast()))

        let (clone, shallow) = (site.folder.file("clone"), site.folder.file("shallow"))
        try await git(["clone", "--quiet", remote, clone])
        try await git(["clone", "--quiet", "--depth", "1", remote, shallow])
        for copy in [clone, shallow] {
            #expect(try await git(["-C", copy, "rev-parse", "HEAD"]) == head)
            try await git(["-C", copy, "fsck", "--full"])
        }
        try await commit(work, "third", bytes: 100)
        try await git(["-C", work, "push", "--quiet", remote, "main"])
        try await git(["-C", clone, "pull", "--quiet", "--ff-only"])
        #expect(try await git(["-C", clone, "rev-parse", "HEAD"]) == git(["-C", work, "rev-parse", "HEAD"]))
        #expect(!site.accessLog.contains(" 401"), "\(site.accessLog)")
    }

    @Test(
        "12.6 A repository that has moved is cloned and pushed to by its former address, behind Lanyard",
        arguments: ["upstream", "client"])
    func moved(host: String) async throws {
        let lanyard = try await site.another(path: "/git", route: "match: {path: /code}, host: \(host)")
        let (work, clone) = (site.folder.file("work"), site.folder.file("clone"))
        try await git(["init", "--quiet", "--initial-branch=main", work])
        try await commit(work, "first", bytes: 100)
        try await git(["-C", work, "push", "--quiet", remote, "main"])

        let former = "http://\(lanyard.data)/code/old.git"
        try await git(["clone", "--quiet", former, clone])
        try await commit(clone, "large", bytes: 1_500_000)
        // A push sends its objects to where the redirect of its first request has led.
        try await git(["-C", clone, "push", "--quiet", former, "main"])
        let head = try await git(["-C", clone, "rev-parse", "main"])
        #expect(try await git(["ls-remote", remote, "refs/heads/main"]).hasPrefix(head.dropLast()))
        try await eventually("Apache's log has the redirect of the push and its end; it has\n\(site.accessLog)") {
            site.accessLog.contains("GET /git/old.git/info/refs?service=git-receive-pack HTTP/1.1 301")
                && site.accessLog.contains("POST /git/all.git/git-receive-pack HTTP/1.1 200")
        }
        #expect(!site.accessLog.contains(" 40"), "\(site.accessLog)")
    }
}
