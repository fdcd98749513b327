import LanyardRequestPath
import Testing

/// What `ResponseReader` makes of some bytes.
enum ResponseReading: Equatable {
    struct Head: Equatable {
        var status = 0
        var reason = ""
        var minorVersion = 1
        var framing = BodyFraming.none
        var connection = ConnectionOptions()
        var announcesForbiddenBody = false
        var keepAliveSeconds = -1
        var length = 0
        var keepsAlive = true
        var isInterim = false
        var fields: [RequestReading.Field] = []
    }

    case head(Head)
    case error(HeadError.Kind)
    case incomplete

    /// Reads in many cuts; differing results are an issue of their own.
    static func of(_ text: String, isResponseToHead: Bool = false, at location: SourceLocation = #_sourceLocation)
        -> ResponseReading
    {
        let bytes = text.unicodeScalars.map { UInt8($0.value) }
        let results = Cuts.of(bytes.count).map { read(bytes, $0, isResponseToHead) }
        for result in results where result != results[0] {
            Issue.record("cut whole: \(results[0]), cut otherwise: \(result)", sourceLocation: location)
        }
        return results[0]
    }

    private static func read(_ bytes: [UInt8], _ cuts: [Int], _ isResponseToHead: Bool) -> ResponseReading {
        let table = FieldTable(capacity: HeadLimits.response.fieldsMax)
        return bytes.withUnsafeBufferPointer { bytes in
            var reader = ResponseReader()
            do throws(HeadError) {
                for end in cuts {
                    let run = Bytes(rebasing: bytes[0..<end])
                    if let head = try reader.read(run, into: table, isResponseToHead: isResponseToHead) {
                        return .head(Head(head, table, bytes))
                    }
                }
            } catch {
                return .error(error.kind)
            }
            return .incomplete
        }
    }

    /// The head, if there is one.
    var head: Head? { if case .head(let head) = self { head } else { nil } }
}

extension ResponseReading.Head {
    fileprivate init(_ head: ResponseHead, _ table: FieldTable, _ bytes: Bytes) {
        func text(_ run: Bytes) -> String { String(decoding: run, as: UTF8.self) }
        status = head.status
        reason = text(bytes[run: head.reason])
        minorVersion = head.minorVersion
        framing = head.framing
        connection = head.connection
        announcesForbiddenBody = head.announcesForbiddenBody
        keepAliveSeconds = head.keepAliveSeconds
        length = head.length
        keepsAlive = head.keepsAlive
        isInterim = head.isInterim
        fields = (0..<table.count).map { .init(text(table.name($0, in: bytes)), text(table.value($0, in: bytes))) }
    }
}
