import CNGHTTP2
import LanyardFoundations

/// A head as HTTP/2 has it: a list of fields with lower-case names, which the codec compresses (RFC 9113 §8.2).
///
/// A shard's messages use it in turn.
struct HTTP2FieldWriter: ~Copyable {
    private var text: HeadWriter
    /// Names and values one behind the other: their places are found when the text is whole.
    private var fields: UnsafeMutablePointer<nghttp2_nv>
    private var capacity: Int
    private var count = 0
    /// Where the value of the field that is being written starts.
    private var valueStart = 0
    /// Where the latest whole field ends, and the next one starts.
    private var end = 0
    /// The field that is being written is a secret of Lanyard's, or may be one.
    private var isSecret = false
    /// The sender of the head has forbidden to index some of its fields: none is (H18).
    var isNeverIndexed = false
    /// The upstream is reached by TLS.
    var isSecure = false

    /// - Parameters:
    ///   - bytes: of the text that has room without another allocation.
    ///   - fields: the same of fields.
    init(bytes: Int = 16 << 10, fields: Int = 64) {
        text = HeadWriter(capacity: bytes)
        self.fields = .allocate(capacity: fields)
        capacity = fields
    }

    deinit { fields.deallocate() }

    var isEmpty: Bool { count == 0 }

    mutating func clear() {
        text.clear()
        (count, end) = (0, 0)
        (isSecret, isNeverIndexed) = (false, false)
    }

    /// Bytes of the list, as its limit counts them (RFC 9113 §6.5.2).
    var listBytes: Int { text.count + count * 32 }

    /// Calls `work` with the fields, which are the codec's to copy.
    mutating func withFields<Result>(_ work: (UnsafeBufferPointer<nghttp2_nv>) -> Result) -> Result {
        var place = UnsafeMutablePointer(mutating: text.bytes.assumingMemoryBound(to: UInt8.self).baseAddress!)
        for index in 0..<count {
            fields[index].name = place
            place += fields[index].namelen
            fields[index].value = place
            place += fields[index].valuelen
        }
        return work(UnsafeBufferPointer(start: fields, count: count))
    }

    @inline(__always)
    private mutating func begin(_ name: StaticString) {
        assert(text.count == end, "bytes outside a field")
        text.write(name)
        valueStart = text.count
    }

    /// Few heads need this.
    @inline(never)
    private mutating func grow() {
        let larger = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: capacity * 2)
        larger.update(from: fields, count: count)
        fields.deallocate()
        (fields, capacity) = (larger, capacity * 2)
    }
}

extension HTTP2FieldWriter: HeadSink {
    static var copiesLines: Bool { false }

    mutating func write(_ byte: UInt8) { text.write(byte) }
    mutating func write(_ bytes: Bytes) { text.write(bytes) }
    mutating func write(_ piece: StaticString) { text.write(piece) }
    mutating func write(_ bytes: [UInt8]) { text.write(bytes) }
    mutating func write(_ secret: Secret) {
        isSecret = true
        text.write(secret)
    }
    mutating func write(decimal number: Int) { text.write(decimal: number) }
    mutating func write(hex number: UInt64) { text.write(hex: number) }

    mutating func beginRequest(_ method: Bytes) {
        begin(":method")
        text.write(method)
        endField()
        begin(":scheme")
        text.write(isSecure ? "https" : "http" as StaticString)
        endField()
        begin(":path")
    }

    mutating func beginAuthority() {
        endField()
        begin(":authority")
    }

    /// A reason has no place in HTTP/2.
    mutating func beginResponse(_ status: Int, reason: Bytes) {
        begin(":status")
        text.write(decimal: status)
        endField()
    }

    mutating func beginField(_ name: Bytes) {
        assert(text.count == end, "bytes outside a field")
        text.write(lowered: name)
        valueStart = text.count
    }

    mutating func beginField(_ name: StaticString) {
        beginField(Bytes(start: name.utf8Start, count: name.utf8CodeUnitCount))
    }

    /// A field that the configuration sets: its value may be a secret.
    mutating func beginField(_ start: FieldStart) {
        beginField(start.name)
        isSecret = true
        text.write(start.value)
    }

    mutating func endField() {
        if count == capacity { grow() }
        // No table of a connection has it (RFC 7541 §7.1.3).
        let isUnindexed = isSecret || isNeverIndexed
        fields[count] = nghttp2_nv(
            name: nil, value: nil, namelen: valueStart - end, valuelen: text.count - valueStart,
            flags: UInt8((isUnindexed ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE).rawValue))
        count += 1
        end = text.count
        isSecret = false
    }

    // What belongs to one connection has no field in HTTP/2 (RFC 9113 §8.2.2), and frames delimit bodies.

    mutating func writeChunkStart(of size: Int, ends: Bool, hasTrailers: Bool) -> StaticString { "" }
    mutating func writeUnknownLength() {}
    mutating func writeOptions(wantsTrailers: Bool, upgrade: [UInt8]?) {
        guard wantsTrailers else { return }
        beginField("te")
        write("trailers" as StaticString)
        endField()
    }
    mutating func writeSwitch(to upgrade: [UInt8]) {}
    mutating func writeUpgradeOption() {}
    mutating func writePersistence(closes: Bool, clientMinorVersion: Int) {}
    mutating func endHead() {}
}

/// Trailers that wait for the end of their body. An object, because few responses have some.
final class StreamTrailers {
    /// Of the text of most trailers.
    private static let usualBytes = 512

    var fields = HTTP2FieldWriter(bytes: usualBytes, fields: 8)

    /// The next message may use the object: it holds no more than usual.
    var isReusable: Bool { fields.listBytes <= Self.usualBytes }
}
