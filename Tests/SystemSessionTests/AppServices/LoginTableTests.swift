import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The table of docs/reference/app-services.md 2.7: each way to give each kind of login, walked through the built programs.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct LoginTableTests {
    /// A kind by the first cell of its row: the secret's file, as `emulator_setup.py` names it, and the service's word.
    private struct Kind: Sendable {
        let secret: String?
        let provider: String
    }

    private static let kinds = [
        "anonymous": Kind(secret: nil, provider: "anon-user"),
        "email and password": Kind(secret: "login-password", provider: "local-userpass"),
        "API key": Kind(secret: "login-api-key", provider: "api-key"),
        "custom function": Kind(secret: "login-function", provider: "custom-function"),
        "custom JWT": Kind(secret: "login-jwt", provider: "custom-token"),
        "Facebook": Kind(secret: "login-facebook", provider: "oauth2-facebook"),
        "Google, ID token": Kind(secret: "login-google", provider: "oauth2-google"),
        "Google, authorization code": Kind(secret: "login-google-code", provider: "oauth2-google"),
        "Apple": Kind(secret: "login-apple", provider: "oauth2-apple"),
    ]

    /// A row with its placeholders.
    private struct Row: Sendable {
        let name: String
        /// A name for its user.
        let user: String
        let kind: Kind
        let file, run, admin, login: String
    }

    /// The cells of a page's tables, by the heading that they stand under.
    private static func cells(_ page: String, under heading: String) throws -> [[String]] {
        let text = try String(contentsOfFile: "\(Products.root)/docs/\(page)", encoding: .utf8)
        let start = try #require(text.range(of: "\n\(heading)\n"), "\(page) has no \(heading)")
        let section = text[start.upperBound...].prefix(
            upTo: text[start.upperBound...].range(of: "\n#")?.lowerBound ?? text.endIndex)
        return section.split(separator: "\n").filter { $0.hasPrefix("|") && !$0.hasPrefix("|---") }.map { line in
            line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    /// The rows of the table. Each cell but the first is code, and none is empty.
    private static func rows() throws -> [Row] {
        let table = try cells("reference/app-services.md", under: "### 2.7 Ways to log in")
        #expect(
            table.first == [
                "kind", "`login` of a user in the file", "flags of `lanyard run`", "`credential` of the admin API",
                "flags of `lanyard login`",
            ])
        let rows = try table.dropFirst().enumerated().map { number, cells in
            try #require(cells.count == 5, "\(cells)")
            let ways = try cells.dropFirst().map { cell in
                try #require(cell.count > 2 && cell.hasPrefix("`") && cell.hasSuffix("`"), "\(cells[0]): \(cell)")
                return String(cell.dropFirst().dropLast())
            }
            let kind = try #require(kinds[cells[0]], "unknown row \(cells[0])")
            return Row(
                name: cells[0], user: "user\(number)", kind: kind, file: ways[0], run: ways[1], admin: ways[2],
                login: ways[3])
        }
        try #require(rows.map(\.name).sorted() == kinds.keys.sorted(), "a row is missing, or there twice")
        return rows
    }

    /// A cell with the secret of its row in place of the placeholders.
    private static func filled(_ cell: String, _ row: Row, _ folder: TemporaryFolder) throws -> String {
        guard let name = row.kind.secret else { return cell }
        let path = folder.file(name)
        let secret = try String(contentsOfFile: path, encoding: .utf8)
        #expect(cell.contains("FILE") || cell.contains("SECRET") || cell.contains("OBJECT"), "\(row.name): \(cell)")
        // No secret of the setup has a character that JSON escapes.
        return cell.replacing("FILE", with: path).replacing("SECRET", with: secret).replacing("OBJECT", with: secret)
            .replacing("EMAIL", with: EmulatorProcess.email)
    }

    /// Checks that the service has made one more session of a row's kind.
    ///
    /// - Returns: the account's id.
    private static func session(
        after count: Int, _ row: Row, _ bench: AppServicesBench, _ way: String
    ) async throws -> String {
        let response = try await RawClient.ask(bench.endpoint, "GET", "/emulator/sessions")
        let sessions = try response.json.array.dropFirst(count)
        #expect(sessions.map { $0["kind"].string } == [row.kind.provider], "\(row.name) by \(way): \(sessions)")
        return sessions.first?["user_id"].string ?? "none"
    }

    private static func sessionCount(_ bench: AppServicesBench) async throws -> Int {
        try await RawClient.ask(bench.endpoint, "GET", "/emulator/sessions").json.array.count
    }

    private static func identity(_ bench: AppServicesBench) -> String {
        """
        identities:
          demo: {app_services: {app_id: \(AppServicesBench.app), base_url: "http://\(bench.endpoint)"}}

        """
    }

    /// Lanyard without a configured user, and its admin API.
    private static func startEmpty(
        _ bench: AppServicesBench, _ name: String
    ) async throws -> (lanyard: LanyardProcess, admin: AdminClient, socket: String) {
        let socket = bench.folder.file(name + ".sock")
        let lanyard = try await LanyardProcess.start(
            identity(bench) + "routes:\n  - {name: all, upstream: \"http://\(bench.endpoint)\"}\n",
            admin: "{address: \"unix:\(socket)\"}")
        return (lanyard, AdminClient(endpoint: .unix(socket)), "unix:\(socket)")
    }

    // MARK: The table and the program

    /// Logins of oauth2, github_app and lanyard identities, which docs/reference/oauth-logins.md and fleet.md list.
    private static let ofOAuth: Set = [
        "client_credentials", "password", "refresh_token", "jwt_bearer", "token_exchange", "device",
        "authorization_code",
        "github_app", "broker",
    ]

    @Test("the table has every key of a login, every flag of the one-user form and every flag of lanyard login, once")
    func complete() async throws {
        let rows = try Self.rows()
        let keys = try Self.cells("use/configuration-identities.md", under: "## Users").filter { cells in
            cells[0].contains(/^`users\.\*\.login\.\w+(\.\w+_file)?`$/) && !cells[3].contains("Not in this version")
                && !Self.ofOAuth.contains(String(cells[0].split(separator: ".")[3].filter { $0 != "`" }))
        }.map { String($0[0].dropFirst("`users.*.login.".count).dropLast()) }
        // A key of a section stands for it.
        let expected = keys.filter { key in key.contains(".") || !keys.contains { $0.hasPrefix(key + ".") } }
        let found = try rows.map { row in
            let match = try #require(
                row.file.wholeMatch(of: /(\w+): \{(?:email: EMAIL, )?(?:(\w+): FILE)?\}/), "\(row.file)")
            return String(match.1) + (match.2.map { ".\($0)" } ?? "")
        }
        #expect(found.sorted() == expected.sorted())

        let flags = try Self.cells("use/configuration.md", under: "## Where values come from").filter {
            $0.count == 4 && ($0[3].hasPrefix("Log in") || $0[0] == "`--password-file`")
                // Of OAuth 2.0.
                && $0[0] != "`--client-secret-file`"
        }.map { String($0[0].dropFirst().dropLast()) }
        let help = try await CommandRun(["login", "--help"]).output
        let credential = try #require(help.range(of: "\nCREDENTIAL:"), "\(help)")
        let paragraph = help[credential.upperBound...].prefix(
            upTo: help[credential.upperBound...].range(of: "\n\n")?.lowerBound ?? help.endIndex)
        let offered = paragraph.matches(of: /\n  (--[a-z-]+)(?: <[^>]+>)?\s+(OAuth 2\.0:)?/).filter { $0.2 == nil }
            .map { String($0.1) }
            // They belong to flags of OAuth logins.
            .filter { !["--subject-token-type", "--actor-token-type"].contains($0) }
        for (way, cells, expected) in [("run", rows.map(\.run), flags), ("login", rows.map(\.login), offered)] {
            let found = cells.flatMap { $0.split(separator: " ").filter { $0.hasPrefix("--") }.map(String.init) }
            #expect(found.sorted() == expected.sorted(), "lanyard \(way)")
        }
    }

    // MARK: Each way

    @Test("every cell of the table logs in, and all ways of one kind lead to the same account")
    func walk() async throws {
        let bench = try await AppServicesBench.start()
        let rows = try Self.rows()
        var accounts: [String: [String]] = [:]
        for row in rows { accounts[row.name, default: []].append(try await Self.byFile(row, bench)) }
        for row in rows { accounts[row.name, default: []].append(try await Self.byFlags(row, bench)) }
        let (first, admin, _) = try await Self.startEmpty(bench, "admin")
        for row in rows {
            let count = try await Self.sessionCount(bench)
            let credential = try Self.filled(row.admin, row, bench.folder)
            let user = try await admin.call(
                "POST", "/v1/users", #"{"name":"\#(row.user)","identity":"demo","credential":\#(credential)}"#)
            let account = try await Self.session(after: count, row, bench, "the admin API")
            #expect(user["user_id"].string == account)
            #expect(try await first.get("/protected/").json["user_id"].string == account, "\(row.name)")
            accounts[row.name, default: []].append(account)
        }
        let (second, _, socket) = try await Self.startEmpty(bench, "login")
        for row in rows {
            let count = try await Self.sessionCount(bench)
            let flags = try Self.filled(row.login, row, bench.folder).split(separator: " ").map(String.init)
            let run = try await CommandRun(["login", row.user, "--identity", "demo", "--admin", socket] + flags)
            #expect(run.exit == .code(0), "\(row.name): \(run.errors)")
            let account = try await Self.session(after: count, row, bench, "lanyard login")
            #expect(run.output.hasPrefix("\(row.user) is logged in and active; account \(account); "), "\(run.output)")
            #expect(try await second.get("/protected/").json["user_id"].string == account, "\(row.name)")
            accounts[row.name, default: []].append(account)
        }
        for row in rows {
            let ways = accounts[row.name] ?? []
            // Each anonymous login makes an account.
            #expect(ways.count == 4 && Set(ways).count == (row.kind.secret == nil ? 4 : 1), "\(row.name): \(ways)")
        }
        #expect(Set(accounts.values.joined()).count == rows.count + 3)
        for process in [first.process, second.process] { #expect(try await process.terminate() == .code(143)) }
        try await bench.emulator.terminate()
    }

    /// Logs in by the configuration file.
    private static func byFile(_ row: Row, _ bench: AppServicesBench) async throws -> String {
        let count = try await sessionCount(bench)
        let lanyard = try await LanyardProcess.start(
            identity(bench) + "users:\n  alice: {identity: demo, login: {\(try filled(row.file, row, bench.folder))}}\n"
                + "routes:\n  - {name: all, upstream: \"http://\(bench.endpoint)\"}\n")
        try await lanyard.untilReady()
        let account = try await session(after: count, row, bench, "the file")
        #expect(try await lanyard.get("/protected/").json["user_id"].string == account, "\(row.name)")
        #expect(try await lanyard.process.terminate() == .code(143))
        return account
    }

    /// Logs in by the flags of `lanyard run`.
    private static func byFlags(_ row: Row, _ bench: AppServicesBench) async throws -> String {
        let count = try await sessionCount(bench)
        let flags = try filled(row.run, row, bench.folder).split(separator: " ").map(String.init)
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--admin-address", "off",
                "--upstream", "http://\(bench.endpoint)", "--app-id", AppServicesBench.app, "--base-url",
                "http://\(bench.endpoint)",
            ] + flags)
        let health = try await process.event("listening") { $0["listener"].string == "health" }
        let data = try await process.event("listening") { $0["listener"].string == "data" }
        let probe = try RawEndpoint(health["address"].string ?? "")
        try await eventually("\(row.name) by flags is ready; it said:\n\(process.log)") {
            try await RawClient.ask(probe, "GET", "/readyz").status == 200
        }
        let account = try await session(after: count, row, bench, "flags")
        let response = try await RawClient.ask(RawEndpoint(data["address"].string ?? ""), "GET", "/protected/")
        #expect(try response.json["user_id"].string == account, "\(row.name)")
        #expect(try await process.terminate() == .code(143))
        return account
    }
}
