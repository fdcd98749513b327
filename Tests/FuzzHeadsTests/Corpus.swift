import Foundation
import FuzzHeads
import TestSupport

/// The corpus of a fuzz head: a text file with an input on each line (`deploy/corpora.py`).
enum Corpus {
    struct Input {
        /// The line in the file.
        var name: String
        var bytes: [UInt8]
    }

    static func inputs(of head: FuzzHead) throws -> [Input] {
        let text = try Data(
            contentsOf: URL(fileURLWithPath: "\(Products.root)/Tests/Fuzz/Corpora/\(head.rawValue).txt"))
        return try text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast().enumerated()
            .map { Input(name: "line \($0 + 1)", bytes: try unescaped($1)) }
    }

    private static func unescaped(_ line: some Sequence<UInt8>) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = Array(line)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                bytes.append(byte)
                continue
            }
            switch rest.popFirst() {
            case UInt8(ascii: "n"): bytes.append(0x0a)
            case UInt8(ascii: "r"): bytes.append(0x0d)
            case UInt8(ascii: "t"): bytes.append(0x09)
            case UInt8(ascii: "\\"): bytes.append(UInt8(ascii: "\\"))
            case UInt8(ascii: "x"):
                guard let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                    throw malformed(line)
                }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: throw malformed(line)
            }
        }
        return bytes
    }

    private static func malformed(_ line: some Sequence<UInt8>) -> TestFailure {
        TestFailure("an escape that is none: \(String(decoding: Array(line), as: UTF8.self))")
    }
}
