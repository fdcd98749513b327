import Foundation
import TestSupport
import Testing

@testable import LanyardConfiguration

/// The pages of docs/use about the configuration against the table of keys.
@Suite struct ConfigurationReferenceTests {
    /// One row of the reference.
    private static func row(_ key: ConfigurationKey) -> String {
        let defaultValue =
            key.isRequired ? "required" : key.defaultValue.map { "`\($0)`" } ?? key.defaultDescription ?? ""
        let mark = mark(key).map { " *\($0)*" } ?? ""
        return "| `\(key.path)` | \(key.unit.replacing("|", with: "\\|")) | \(defaultValue) | \(key.meaning)\(mark) |"
    }

    /// What this version does not do with a key or one above it.
    private static func mark(_ key: ConfigurationKey) -> String? {
        let marks = UnsupportedSetting.all.compactMap { unbuilt -> String? in
            let effect = unbuilt.isError ? "an error" : "ignored"
            switch unbuilt.values {
            case .any where key.path == unbuilt.path || key.path.hasPrefix(unbuilt.path + "."):
                return "Not in this version: \(effect)."
            case .otherThan(let words) where key.path == unbuilt.path:
                let values = words.map { "`\($0)`" }.joined(separator: ", ")
                return "Values other than \(values) are not in this version: \(effect)."
            case .only(let words) where key.path == unbuilt.path:
                return words.map { "`\($0)`" }.joined(separator: ", ") + " is not in this version: \(effect)."
            default: return nil
            }
        }
        return marks.isEmpty ? nil : marks.joined(separator: " ")
    }

    private static func page() throws -> [String] {
        // The table of mistakes has another test (`MistakeTableTests`).
        let names = ["configuration", "configuration-routes", "configuration-identities", "configuration-limits"]
        return try names.flatMap { name in
            try String(contentsOfFile: Products.root + "/docs/use/\(name).md", encoding: .utf8)
                .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        }
    }

    @Test("every key stands in the reference as the program knows it, and nothing else does")
    func rows() throws {
        let page = try Self.page().filter { $0.hasPrefix("| `") && !$0.hasPrefix("| `--") }
        let known = ConfigurationKeys.all.map(Self.row)
        for row in known where !page.contains(row) { Issue.record("docs/use/configuration-*.md lack:\n\(row)") }
        for row in page where !known.contains(row) {
            Issue.record("docs/use/configuration-*.md have, and no key is:\n\(row)")
        }
        #expect(Set(page).count == page.count)
    }

    @Test("every flag of the short form stands in the reference")
    func shortForm() throws {
        let page = try Self.page().filter { $0.hasPrefix("| `--") }
        let known = ConfigurationFlag.short.map { flag in
            let defaultText = flag.defaultText.map { " \($0)" } ?? ""
            return "| `\(flag.name)` | `\(flag.environment)` |\(defaultText) | \(flag.meaning) |"
        }
        #expect(page == known)
    }

    @Test("the examples of the reference load")
    func examples() throws {
        let blocks = try Self.page().joined(separator: "\n").components(separatedBy: "```yaml\n").dropFirst()
        #expect(!blocks.isEmpty)
        for block in blocks {
            let text = block.components(separatedBy: "```")[0]
            let diagnostics = try Loading.diagnostics(text).filter { !$0.hasPrefix("warning: ") }
            #expect(diagnostics == [])
        }
    }

    @Test("the recipes of the OAuth pages load, each as a whole")
    func recipes() throws {
        let page = try ["oauth-recipes", "oauth-servers"].map { name in
            try String(contentsOfFile: Products.root + "/docs/reference/\(name).md", encoding: .utf8)
        }
        let recipes = page.joined(separator: "\n").components(separatedBy: "\n### ").filter { $0.hasPrefix("9.") }
        #expect(recipes.count == 8)
        for recipe in recipes {
            let blocks = recipe.components(separatedBy: "```yaml\n").dropFirst()
            // A machine's login, and a user's, if the service has logins of users; of 9.8 one for each server.
            let count = recipe.hasPrefix("9.6") ? 1 : recipe.hasPrefix("9.8") ? 3 : 2
            #expect(blocks.count == count, "\(recipe.prefix(20))")
            for block in blocks {
                // In the folder of the test, where the secrets are.
                let text = block.components(separatedBy: "```")[0]
                    .replacing("/run/secrets/", with: "").replacing("/var/lib/lanyard/", with: "")
                let files = ["client", "google.json", "app.pem", "refresh-token", "store.key", "password"]
                let diagnostics = try Loading.diagnostics(text, files: files)
                #expect(diagnostics == [], "\(recipe.prefix(20))")
            }
        }
    }

    @Test("every path in the table of what is not in this version is a key")
    func unbuiltPaths() {
        let known = Set(ConfigurationKeys.all.map(\.path))
        #expect(UnsupportedSetting.all.map(\.path).filter { !known.contains($0) } == [])
    }

    @Test("every default is a right value of its key")
    func defaults() {
        for key in ConfigurationKeys.all {
            guard let defaultValue = key.defaultValue, !key.keywords.contains(defaultValue) else { continue }
            switch key.kind {
            case .value(let value): #expect(throws: Never.self) { try value.check(defaultValue) }
            case .values: #expect(defaultValue.hasPrefix("[") && defaultValue.hasSuffix("]"))
            default: Issue.record("\(key.path) has a default that it cannot have")
            }
        }
    }

    @Test("a default that is written out changes nothing, so the settings have the defaults of the reference")
    func settings() throws {
        let sections: Set = ["refresh", "login", "limits", "log", "shutdown"]
        let without = try #require(try Loading.load(Loading.whole).loaded.configuration)
        let keys = ConfigurationKeys.all.filter { sections.contains($0.section) && $0.defaultValue != nil }
        #expect(keys.count > 20)
        for key in keys {
            guard case .value = key.kind, let value = key.defaultValue else { continue }
            let text = Loading.whole + "\(key.section): {\(key.name): \(value)}\n"
            let loaded = try #require(try Loading.load(text).loaded.configuration)
            #expect(loaded.refresh == without.refresh && loaded.login == without.login, "\(key.path): \(value)")
            #expect(loaded.limits == without.limits && loaded.log == without.log, "\(key.path): \(value)")
            #expect(loaded.shutdown == without.shutdown, "\(key.path): \(value)")
        }
    }

    @Test("no key is named twice, and each stands in a section that exists")
    func sections() {
        let paths = ConfigurationKeys.all.map(\.path)
        #expect(Set(paths).count == paths.count)
        let sections = Set(ConfigurationKeys.all.map(\.below) + [""])
        #expect(ConfigurationKeys.all.filter { !sections.contains($0.section) }.map(\.path) == [])
    }
}
