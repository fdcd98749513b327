import Foundation
import TestSupport

/// Has h11 read what our readers accept, and compares what both make of it.
struct DifferentialRun {
    private(set) var messages = 0
    /// Wholly read by us.
    private(set) var accepted = 0
    /// Wholly read by both.
    private(set) var agreed = 0
    private(set) var permitted: [PermittedDifference: Int] = [:]
    /// Messages of which one meaning is not the other.
    private(set) var differences: [String] = []

    /// The interpreter that has h11; `deploy/test` makes it.
    static let interpreter = Products.root + "/.build/venv/bin/python3"

    static var hasPeer: Bool { FileManager.default.isExecutableFile(atPath: interpreter) }

    /// One batch goes to one process, by files.
    static func of(_ count: Int, seed: UInt64) async throws -> DifferentialRun {
        var grammar = MessageGrammar(seed: seed)
        let messages = (0..<count).map { _ in grammar.message() }
        let folder = try TemporaryFolder()
        let (input, output) = (folder.file("input"), folder.file("output"))
        var records = Data()
        for message in messages {
            records.append(message.kind.rawValue)
            withUnsafeBytes(of: UInt32(message.bytes.count).bigEndian) { records.append(contentsOf: $0) }
            records.append(contentsOf: message.bytes)
        }
        try records.write(to: URL(fileURLWithPath: input))
        let script = Products.root + "/Tests/Fuzz/Peer/h11_peer.py"
        let peer = try ServerProcess(interpreter, [script, input, output])
        let exit = try await peer.waitForExit()
        guard exit == .code(0) else { throw TestFailure("h11_peer.py ended with \(exit):\n\(peer.log)") }
        let meanings = try Data(contentsOf: URL(fileURLWithPath: output), options: .alwaysMapped)
        var run = DifferentialRun()
        run.compare(messages, with: Self.records(in: meanings))
        return run
    }

    private static func records(in data: Data) -> [[UInt8]] {
        var records: [[UInt8]] = []
        var place = data.startIndex
        while place + 4 <= data.endIndex {
            let count = data[place..<(place + 4)].reduce(0) { $0 << 8 | Int($1) }
            records.append(Array(data[(place + 4)..<(place + 4 + count)]))
            place += 4 + count
        }
        return records
    }

    private mutating func compare(_ messages: [HTTPMessage], with meanings: [[UInt8]]) {
        self.messages = messages.count
        if meanings.count != messages.count {
            differences.append("h11 read \(meanings.count) of \(messages.count) messages")
        }
        for (message, theirs) in zip(messages, meanings) {
            let ours = MessageReading(message)
            guard ours.outcome != .refused else { continue }
            if ours.outcome == .whole { accepted += 1 }
            if ours.meaning == theirs {
                if ours.outcome == .whole { agreed += 1 }
                continue
            }
            let refusal = String(decoding: theirs, as: UTF8.self)
            let known =
                refusal.hasPrefix("refused: ")
                ? PermittedDifference.allCases.first { $0.explains(refusal, of: message) } : nil
            if let known {
                permitted[known, default: 0] += 1
            } else {
                differences.append(
                    """
                    \(message.kind) \(message.shown)\n  ours: \
                    \(String(decoding: ours.meaning, as: UTF8.self).debugDescription)\n\
                      h11: \(refusal.debugDescription)
                    """
                )
            }
        }
    }
}
