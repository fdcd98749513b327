import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardRequestPath

/// Holds the readers of foreign numbers and dates to their promises: no text ends the process, what is read is what the text says,
/// clamped to the range, and arithmetic with it stays in the range.
final class NumberFuzz: FuzzTarget {
    private static let bytesMax = 256

    private let room = GuardedRoom(capacity: bytesMax)

    func check(_ input: Bytes) throws(BrokenPromise) {
        let bytes = room.atEnd(input[run: 0..<min(input.count, Self.bytesMax)])
        let text = String(decoding: bytes, as: UTF8.self)
        try checkInteger(bytes, text)
        try checkLength(bytes, text)
        try checkDates(text)
        try checkClaims(text)
        _ = (ConfigurationText.duration(text), ConfigurationText.size(text), ConfigurationText.mode(text))
        try checkArithmetic(bytes)
    }

    /// A whole number of JSON is within one of the text's value, or at the end of the range.
    private func checkInteger(_ bytes: Bytes, _ text: String) throws(BrokenPromise) {
        guard let number = JSONNumber.integer(UnsafeRawBufferPointer(bytes)[...]) else { return }
        guard let value = Double(text) else { throw BrokenPromise("a number was read from what is none") }
        let wanted = min(max(value, -0x1p63), 0x1p63)
        let isNear = (Double(number) - wanted).magnitude <= max(1, wanted.magnitude * 0x1p-50)
        try BrokenPromise.unless(isNear, "a number was read as another")
    }

    /// A length has digits only, and is one of 63 bits.
    private func checkLength(_ bytes: Bytes, _ text: String) throws(BrokenPromise) {
        let isNumber = bytes.count > 0 && bytes.allSatisfy { 0x30...0x39 ~= $0 }
        try BrokenPromise.unless(bytes.decimal == (isNumber ? Int(text) : nil), "a length was read as another")
    }

    /// A date that was read is written as the text, or is at an end of the range.
    private func checkDates(_ text: String) throws(BrokenPromise) {
        let ends = [WallTime(nanoseconds: .min), WallTime(nanoseconds: .max)]
        if let time = Timestamp.read(text), !ends.contains(time) {
            try BrokenPromise.unless(Timestamp.text(time) == text, "a timestamp was read as another")
        }
        for time in [Timestamp.readDateTime(text), HTTPDate.read(text)] {
            guard let time, !ends.contains(time) else { continue }
            let written = String(unsafeUninitializedCapacity: HTTPDate.count) { room in
                HTTPDate.write(time, into: room.baseAddress!)
                return HTTPDate.count
            }
            try BrokenPromise.unless(
                HTTPDate.read(written).map { time - $0 < .seconds(1) } ?? (time < WallTime(seconds: 0)),
                "a date changes when written")
        }
    }

    private func checkClaims(_ text: String) throws(BrokenPromise) {
        var token = SecretBuffer()
        token.append("e30.")
        for byte in "{\"iat\":\(text),\"exp\":\(text)}".utf8 { token.append(byte) }
        let claims = JWTClaims(of: token.seal())
        guard let expiry = claims?.expiry, let issuedAt = claims?.issuedAt else { return }
        try BrokenPromise.unless(expiry.clampedDifference(issuedAt) == 0, "one number was read in two ways")
    }

    private func checkArithmetic(_ bytes: Bytes) throws(BrokenPromise) {
        let words = [0, 8].map { start in
            (0..<8).reduce(Int64(0)) { word, place in
                word << 8 | Int64(start + place < bytes.count ? bytes[start + place] : 0)
            }
        }
        let (one, other) = (words[0], words[1])
        let (wide, wideOther) = (Int128(one), Int128(other))
        try BrokenPromise.unless(one.clampedSum(other) == Int64(clamping: wide + wideOther), "a sum is wrong")
        try BrokenPromise.unless(
            one.clampedDifference(other) == Int64(clamping: wide - wideOther), "a difference is wrong")
        try BrokenPromise.unless(one.clampedProduct(other) == Int64(clamping: wide * wideOther), "a product is wrong")
        let time = WallTime(seconds: one)
        _ = (time + .nanoseconds(other), time - WallTime(nanoseconds: other), CalendarTime(time), Timestamp.text(time))
        let instant = Instant(nanoseconds: one)
        _ = (instant + .nanoseconds(other), instant - .nanoseconds(other), instant - Instant(nanoseconds: other))
        _ = (Duration.seconds(one) + .nanoseconds(other)).nanoseconds
    }
}
