import Foundation
import Glibc
import TestSupport

/// The text files of this checkout, for tests that read them.
enum SourceFiles {
    /// Texts by their path from the root, of the files below `folder` whose names end in one of these.
    static func texts(below folder: String, _ endings: [String] = [".swift"]) throws -> [String: String] {
        var texts: [String: String] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: "\(Products.root)/\(folder)")
        where endings.contains(where: path.hasSuffix) {
            texts["\(folder)/\(path)"] = try text(of: "\(folder)/\(path)")
        }
        return texts
    }

    static func text(of path: String) throws -> String {
        try String(contentsOfFile: "\(Products.root)/\(path)", encoding: .utf8)
    }

    /// The part of a page below a heading of the second level, up to the next one; empty if the page has no such heading.
    static func section(_ heading: String, of path: String) throws -> String {
        try text(of: path).split(separator: "\n", omittingEmptySubsequences: false)
            .drop { $0 != "## \(heading)" }.dropFirst().prefix { !$0.hasPrefix("## ") }.joined(separator: "\n")
    }

    /// The lines of a Swift text without those that are comments, with their numbers from 1.
    static func codeLines(of text: String) -> [(number: Int, text: Substring)] {
        text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap { index, line in
            line.drop { $0 == " " }.hasPrefix("//") ? nil : (index + 1, line)
        }
    }

    /// Whether a text has this part, by strstr: `contains` takes hundreds of times as long in a debug build.
    static func holds(_ text: String, _ part: String) -> Bool {
        text.withCString { strstr($0, part) != nil }
    }

    /// The words of a line: runs of letters, digits and underscores.
    static func words(of line: Substring) -> [Substring] {
        line.split { !($0.isLetter || $0.isNumber || $0 == "_") }
    }
}
