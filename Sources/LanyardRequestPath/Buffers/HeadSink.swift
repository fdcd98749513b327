import LanyardFoundations

/// Takes the pieces of a text, one after another.
protocol ByteSink: ~Copyable {
    mutating func write(_ byte: UInt8)
    mutating func write(_ bytes: UnsafeBufferPointer<UInt8>)
    mutating func write(_ text: StaticString)
    mutating func write(_ bytes: [UInt8])
}

/// The form in which the head of a message is written: as text in HTTP/1.1.
///
/// Which fields a head has is decided by who calls it, in this order: the start, the fields, the end. A value is written in pieces between
/// `beginField` and `endField`. What one protocol has no field for, such as `Connection`, has a function here, which does nothing then.
protocol HeadSink: ByteSink, ~Copyable {
    /// Fields may be copied as they were received, in runs of whole lines with the start line before them.
    static var copiesLines: Bool { get }

    /// Begins a request. The pieces of its target follow.
    mutating func beginRequest(_ method: UnsafeBufferPointer<UInt8>)
    /// The target ends. The pieces of the authority follow, then `endField`.
    mutating func beginAuthority()
    /// Writes the start of a response.
    mutating func beginResponse(_ status: Int, reason: UnsafeBufferPointer<UInt8>)

    mutating func beginField(_ name: UnsafeBufferPointer<UInt8>)
    mutating func beginField(_ name: StaticString)
    mutating func beginField(_ start: FieldStart)
    mutating func write(_ secret: Secret)
    mutating func write(decimal number: Int)
    mutating func write(hex number: UInt64)
    mutating func endField()

    /// Begins `size` bytes of a body without a known length, which the caller sends next.
    ///
    /// - Returns: what follows them.
    mutating func writeChunkStart(of size: Int, ends: Bool, hasTrailers: Bool) -> StaticString
    /// The body has no known length.
    mutating func writeUnknownLength()
    /// A request's options for this hop.
    ///
    /// - Parameter upgrade: the protocol of an upgrade; nil: an ordinary request.
    mutating func writeOptions(wantsTrailers: Bool, upgrade: [UInt8]?)
    /// The protocol to which a response switches.
    mutating func writeSwitch(to upgrade: [UInt8])
    /// A response has an `Upgrade` field, which is this hop's.
    mutating func writeUpgradeOption()
    /// What becomes of the client's connection behind a response.
    mutating func writePersistence(closes: Bool, clientMinorVersion: Int)
    mutating func endHead()
}

/// A field's name and the beginning of its value, as configured. An object whose bytes stay at their place: an array would be counted at
/// each use.
package final class FieldStart: @unchecked Sendable {
    /// `Name: value`. Valid while this is.
    let bytes: UnsafeBufferPointer<UInt8>
    private let nameLength: Int

    init(_ name: String, _ value: String) {
        let text = Array("\(name): \(value)".utf8)
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.count)
        _ = copy.initialize(from: text)
        bytes = UnsafeBufferPointer(copy)
        nameLength = name.utf8.count
    }

    deinit { bytes.deallocate() }

    /// The name alone. Valid while this is.
    var name: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(rebasing: bytes[..<nameLength]) }
    /// The beginning of the value. Valid while this is.
    var value: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(rebasing: bytes[(nameLength + 2)...]) }
}

extension HeadSink where Self: ~Copyable {
    /// Writes the start of a response of Lanyard's own.
    mutating func beginResponse(_ status: Int, _ reason: String) {
        var reason = reason
        reason.withUTF8 { beginResponse(status, reason: $0) }
    }

    mutating func writeField(_ name: StaticString, _ value: String) {
        beginField(name)
        var value = value
        value.withUTF8 { write($0) }
        endField()
    }

    mutating func writeField(_ name: StaticString, decimal number: Int) {
        beginField(name)
        write(decimal: number)
        endField()
    }
}
