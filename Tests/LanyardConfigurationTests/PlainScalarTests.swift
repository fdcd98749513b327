import Foundation
import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// What other readers of YAML make of a scalar without quotes: refused where Lanyard would silently take another meaning.
@Suite struct PlainScalarTests {
    private static func text(
        listener: String = "address: \"127.0.0.1:7400\"", clientID: String = "c", more: String = ""
    ) -> String {
        """
        listeners: [{\(listener)}]
        identities: {corp: {oauth2: {issuer: "https://idp.example.com", client_id: \(clientID)}}}
        users: {robot: {identity: corp, login: {device: {}}}}
        routes: [{upstream: "http://127.0.0.1:9000"}]
        \(more)

        """
    }

    private static func mode(_ value: String, _ more: String = "") throws -> (UInt16?, [String]) {
        let text = text(listener: "address: \"unix:/run/a.sock\", socket_mode: \(value)\(more)")
        let loaded = try Loading.load(text).loaded
        return (loaded.configuration?.listeners.first?.socketMode, loaded.diagnostics.map(\.description))
    }

    @Test("socket_mode is a zero and three octal digits, with and without quotes")
    func modes() throws {
        for (value, mode) in [("0660", 0o660), ("\"0660\"", 0o660), ("'0600'", 0o600), ("0000", 0)]
            as [(String, UInt16)]
        {
            #expect(try Self.mode(value) == (mode, []))
        }
        for value in [
            "432", "660", "0o660", "00660", "600", "\"660\"", "0x1b0", "432.0", "4.32e+02", "438", "0668", "+0660",
            "u=rw",
        ] {
            let (_, diagnostics) = try Self.mode(value)
            #expect(
                diagnostics.count == 1 && diagnostics[0].contains("is not permissions in octal"),
                "\(value): \(diagnostics)")
        }
        #expect(try Self.mode("432").1[0].contains("write \"0660\" in quotes"))
        #expect(try Self.mode("384").1[0].contains("write \"0600\" in quotes"))
        for flag in ["432", "660", "0o660", "00660"] {
            let loaded = Configuration.load(
                arguments: ["--listen", "unix:/run/a.sock", "--socket-mode", flag, "--upstream", "http://127.0.0.1:9"],
                environment: [:])
            #expect(loaded.diagnostics.contains { $0.description.contains("is not permissions in octal") }, "\(flag)")
        }
    }

    @Test("a bit for others needs unsafe or peers")
    func others() throws {
        for mode in ["0666", "0662", "0661", "0664", "\"0777\"", "0002"] {
            let diagnostics = try Self.mode(mode).1
            #expect(
                diagnostics.count == 1
                    && diagnostics[0].contains("lets every user of this machine connect and act as the user"),
                "\(diagnostics)")
            #expect(try Self.mode(mode, ", unsafe: true").1 == [])
            #expect(try Self.mode(mode, ", peers: {uids: [1000]}").1 == [])
            #expect(try Self.mode(mode, ", peers: {uids: [], gids: []}").1.count == 1)
            #expect(try Self.mode(mode, ", unsafe: false").1.count == 1)
        }
        for mode in ["0660", "0770", "0600", "0640"] { #expect(try Self.mode(mode).1 == []) }
    }

    @Test(
        "text that another program has written as something else is refused, with the way to quote it",
        arguments: [
            "1.2345678901234568e+20", "1e3", "1E+05", ".inf", "-.inf", ".nan", "true", "True", "FALSE", "null", "Null",
            "~",
        ])
    func refused(_ value: String) throws {
        let diagnostics = try Loading.diagnostics(Self.text(clientID: value))
        #expect(diagnostics.count == 1 && !diagnostics[0].hasPrefix("warning"), "\(diagnostics)")
        #expect(diagnostics[0].contains("client_id") && diagnostics[0].contains("in quotes"), "\(diagnostics)")
        let quoted = try Loading.load(Self.text(clientID: "\"\(value)\"")).loaded
        #expect(quoted.diagnostics == [] && Self.clientID(quoted) == value)
    }

    @Test(
        "text that another program would change works, with a warning",
        arguments: [
            "123456789012345678901", "9007199254740993", "0123", "1_000", "0x1F", "0b11", "0o17", "12:30:45",
            "190:20:30.15",
            "1.10", "+1", "-01", "yes", "No", "ON", "off", "y", "N", "2026-11-21", "2026-11-21T11:09:12Z", "00",
        ])
    func warned(_ value: String) throws {
        let loaded = try Loading.load(Self.text(clientID: value)).loaded
        #expect(Self.clientID(loaded) == value)
        let diagnostics = loaded.diagnostics.map(\.description)
        #expect(diagnostics.count == 1 && diagnostics[0].contains("other YAML readers, such as Helm"), "\(diagnostics)")
        #expect(diagnostics[0].contains("write \"\(value)\" in quotes"), "\(diagnostics)")
        #expect(try Loading.diagnostics(Self.text(clientID: "'\(value)'")) == [])
    }

    @Test(
        "other text works without quotes and without a word",
        arguments: [
            "c", "1", "0", "1234567", "1.5", "127.0.0.1", "0a1", "1e", "e3", "abc-123", "123456789012.apps", "nullable",
            "truely",
            "yEs", "oN", "nUll", "12:99", "1:2:3:4:5:6:7:80", "2026-11", "20261121", "1-2-3", ".5x", "-1", "ye",
            "on-call", "no1",
        ])
    func plain(_ value: String) throws {
        let loaded = try Loading.load(Self.text(clientID: value)).loaded
        #expect(loaded.diagnostics == [] && Self.clientID(loaded) == value, "\(loaded.diagnostics)")
    }

    private static func clientID(_ loaded: LoadedConfiguration) -> String? {
        guard case .oauth(let client) = loaded.configuration?.identities.first?.kind else { return nil }
        return client.clientID
    }

    @Test("names, lists, parameters and fields likewise; a word of a choice or a keyword says how it is kept")
    func everywhere() throws {
        for (more, message) in [
            ("active_user: true", "active_user: true without quotes is a truth value"),
            ("active_user: null", "active_user: null without quotes is no value"),
            ("user: 1e3", "user: 1e3 without quotes is a number"),
            ("sandbox: false", "if it was off, write \"off\" in quotes: other YAML readers take it for false"),
            ("health: false", "if it was off, write \"off\" in quotes"),
            ("admin: false", "if it was off, write \"off\" in quotes"),
            ("health: {address: false}", "if it was off, write \"off\" in quotes"),
            ("shards: 010", "write it without the 0 in front: other YAML readers take it for an octal number"),
            ("limits: {connections_max: 0100}", "without the 0 in front"),
            ("limits: {connections_max: 1e3}", "is not a whole number"),
            ("refresh: {wait_max: 1:30}", "is not a duration"),
            ("log: {access: yes}", "is not true or false"),
        ] {
            let diagnostics = try Loading.diagnostics(Self.text(more: more))
            #expect(diagnostics.contains { $0.contains(message) }, "\(more): \(diagnostics)")
        }
        for (part, message) in [
            ("scopes: [api, true]", "oauth2.scopes: true without quotes"),
            ("params: {audience: null}", "params.audience: null without"),
            ("params: {max_age: [1e9]}", "params.max_age: 1e9 without quotes"),
            ("params: {true: x}", "params: true without quotes"),
            ("token_headers: {X-A: ~}", "token_headers: ~ without quotes"),
        ] {
            let diagnostics = try Loading.diagnostics(Self.text(clientID: "c, \(part)"))
            #expect(diagnostics.contains { $0.contains(message) }, "\(part): \(diagnostics)")
        }
        let named = """
            identities: {fixed: {static: {token_file: secret}}}
            users: {true: {identity: fixed}}
            routes: [{upstream: "http://127.0.0.1:9000"}]

            """
        let diagnostics = try Loading.diagnostics(named, files: ["secret"])
        #expect(diagnostics.contains { $0.contains("users: true without quotes is a truth value") }, "\(diagnostics)")
        #expect(try Loading.diagnostics(named.replacing("true:", with: "\"true\":"), files: ["secret"]) == [])
    }

    @Test("what --print-config writes is kept by other readers, and is loaded again")
    func printed() throws {
        let texts = ["true", "1e3", "123456789012345678901", "null", "0123", "no", "1.10", "12:30", "2026-11-21"]
        for text in texts {
            let loaded = try Loading.load(Self.text(clientID: "\"\(text)\"")).loaded
            #expect(loaded.printed.contains("client_id: \"\(text)\""), "\(loaded.printed)")
            #expect(try Loading.diagnostics(loaded.printed) == [])
        }
        let printed = try Loading.load(Self.text(more: "shards: 4\nlog: {access: false}\nsandbox: \"off\"")).loaded
            .printed
        #expect(printed.contains("shards: 4\n") && printed.contains("access: false\n"))
    }

    @Test("the chart's lists are the program's keys of numbers and of truth values")
    func chart() throws {
        let template = try String(
            contentsOfFile: Products.root + "/deploy/helm/lanyard/templates/_lanyard.tpl", encoding: .utf8)
        func list(_ name: String) throws -> [String] {
            let start = try #require(template.range(of: "{{- $\(name) := list "))
            let end = try #require(template[start.upperBound...].range(of: "-}}"))
            return template[start.upperBound..<end.lowerBound].split { $0 == "\"" || $0.isWhitespace }.map(String.init)
        }
        func keys(_ fits: (ConfigurationValue) -> Bool) -> [String] {
            let found = ConfigurationKeys.all.filter { key in
                switch key.kind {
                case .value(let value), .values(let value): fits(value)
                default: false
                }
            }
            return Set(found.map(\.name)).sorted()
        }
        let numbers = keys {
            switch $0 {
            case .integer, .refusal: true
            case .choice(let words): words.allSatisfy { Int($0) != nil }
            default: false
            }
        }
        #expect(try list("numbers") == numbers)
        #expect(try list("truths") == keys { $0 == .boolean })
    }
}
