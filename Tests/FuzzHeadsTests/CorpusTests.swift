import FuzzHeads
import LanyardRequestPath
import TestSupport
import Testing

/// Replays the corpora of the fuzz heads (`deploy/fuzz`): inputs that reach every edge the fuzzing has found, and every finding that
/// was ever made.
@Suite("Corpora of the fuzzing") struct CorpusTests {
    @Test("every promise holds for every file of the corpora", arguments: FuzzHead.allCases)
    func replay(_ head: FuzzHead) throws {
        let target = head.target()
        let inputs = try Corpus.inputs(of: head)
        #expect(inputs.count >= 10, "the corpus of \(head) is missing")
        for input in inputs {
            do throws(BrokenPromise) {
                try Self.check(target, input.bytes)
            } catch {
                Issue.record("\(head)/\(input.name): \(error)")
            }
        }
    }

    @Test("every promise holds for inputs of the corpora put together and damaged", arguments: FuzzHead.allCases)
    func damaged(_ head: FuzzHead) throws {
        let target = head.target()
        let inputs = try Corpus.inputs(of: head)
        var random = SeededGenerator(0x1a57)
        let isSlow = [.yaml, .tls, .http2Client, .http2Upstream].contains(head)
        for _ in 0..<(isSlow ? 300 : 2000) {
            guard let first = inputs.randomElement(using: &random), let second = inputs.randomElement(using: &random)
            else {
                break
            }
            let bytes = Self.mutate(first.bytes, second.bytes, &random)
            do throws(BrokenPromise) {
                try Self.check(target, bytes)
            } catch {
                Issue.record("\(head): \(error): \(bytes)")
            }
        }
    }

    private static func check(_ target: any FuzzTarget, _ bytes: [UInt8]) throws(BrokenPromise) {
        // A closure with typed errors keeps their type only in a result.
        try (bytes + [0]).withUnsafeBufferPointer { all in
            Result { () throws(BrokenPromise) in try target.check(Bytes(rebasing: all.dropLast())) }
        }.get()
    }

    private static func mutate(_ first: [UInt8], _ second: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = first
        let place = Int.random(in: 0...bytes.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes.replaceSubrange(place..., with: second.suffix(Int.random(in: 0...second.count, using: &random)))
        case 1: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
        case 2: if place < bytes.count { bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
        default: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 0...9, using: &random)))
        }
        return bytes
    }
}
