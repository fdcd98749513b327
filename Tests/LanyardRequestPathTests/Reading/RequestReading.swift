import LanyardRequestPath
import LanyardSettings
import Testing

/// What `RequestReader` makes of some bytes.
enum RequestReading: Equatable {
    struct Field: Equatable {
        var name: String
        var value: String
        init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    struct Head: Equatable {
        var method = ""
        var kind = RequestHead.Method.other
        var target = ""
        var minorVersion = 1
        var framing = BodyFraming.none
        var connection = ConnectionOptions()
        var expectation = RequestHead.Expectation.none
        var traits: RequestHead.Traits = []
        var fields: [Field] = []
        var host: String?
        /// Bytes that were used.
        var length = 0
        var wantsKeepAlive = true
    }

    case head(Head)
    case error(HeadError.Kind)
    case incomplete

    static let limits = HeadLimits(LimitSettings())

    /// Reads in many cuts; differing results are an issue of their own.
    static func of(_ text: String, limits: HeadLimits = limits, at location: SourceLocation = #_sourceLocation)
        -> RequestReading
    {
        let bytes = text.unicodeScalars.map { UInt8($0.value) }
        let results = Cuts.of(bytes.count).map { read(bytes, $0, limits) }
        for result in results where result != results[0] {
            Issue.record("cut whole: \(results[0]), cut otherwise: \(result)", sourceLocation: location)
        }
        return results[0]
    }

    private static func read(_ bytes: [UInt8], _ cuts: [Int], _ limits: HeadLimits) -> RequestReading {
        let table = FieldTable(capacity: limits.fieldsMax)
        return bytes.withUnsafeBufferPointer { bytes in
            var reader = RequestReader()
            do throws(HeadError) {
                for end in cuts {
                    if let head = try reader.read(Bytes(rebasing: bytes[0..<end]), into: table, limits: limits) {
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

extension RequestReading.Head {
    fileprivate init(_ head: RequestHead, _ table: FieldTable, _ bytes: Bytes) {
        func text(_ run: Bytes) -> String { String(decoding: run, as: UTF8.self) }
        method = text(bytes[run: head.method])
        kind = head.kind
        target = text(bytes[run: head.target])
        minorVersion = head.minorVersion
        framing = head.framing
        connection = head.connection
        expectation = head.expectation
        traits = head.traits
        fields = (0..<table.count).map { .init(text(table.name($0, in: bytes)), text(table.value($0, in: bytes))) }
        host = head.host < 0 ? nil : text(table.value(head.host, in: bytes))
        length = head.length
        wantsKeepAlive = head.wantsKeepAlive
    }
}
