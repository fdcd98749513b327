import Glibc

/// A host in the one form in which hosts are compared (http-requests.md 4.6).
///
/// | host | form |
/// |---|---|
/// | name | lower case, without the dot of the root |
/// | IPv4 address | four decimal numbers, as sent; other spellings of an address are names that no configuration may have |
/// | IPv6 address | RFC 5952: compressed, lower case, an IPv4-mapped one with a dotted end |
///
/// An IPv4 address and the IPv6 address that maps it are two hosts. A name with an empty label, and a lone dot, have no form.
package struct CanonicalHost: Hashable, Sendable {
    /// Bytes of the longest form (RFC 1035 2.3.4).
    package static let bytesMax = 253

    /// An IPv6 address without brackets.
    package let text: String

    /// - Parameter text: the host of a URL; an IPv6 address with or without brackets.
    /// - Returns: nil if the host has no canonical form.
    package init?(_ text: String) {
        let isBareAddress = !text.hasPrefix("[") && text.utf8.contains(UInt8(ascii: ":"))
        let host = Array((isBareAddress ? "[\(text)]" : text).utf8)
        let form = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.bytesMax) { room in
            host.withUnsafeBufferPointer { Self.write($0, to: room) }
                .map { String(decoding: room.prefix($0), as: UTF8.self) }
        }
        guard let form else { return nil }
        self.text = form.hasPrefix("[") ? String(form.dropFirst().dropLast()) : form
    }

    /// As in a URL and in a `Host` field: an IPv6 address in brackets.
    package var bracketed: String { text.utf8.contains(UInt8(ascii: ":")) ? "[\(text)]" : text }

    /// Writes the form of a host as it stands in a URL or a `Host` field. Allocates nothing.
    ///
    /// - Parameters:
    ///   - host: its bytes are those of a host; an IPv6 address is in brackets.
    ///   - room: `bytesMax` bytes.
    /// - Returns: the number of bytes; nil if the host has no canonical form.
    package static func write(_ host: UnsafeBufferPointer<UInt8>, to room: UnsafeMutableBufferPointer<UInt8>) -> Int? {
        if host.first == UInt8(ascii: "[") {
            guard host.last == UInt8(ascii: "]") else { return nil }
            return writeAddress(UnsafeBufferPointer(rebasing: host.dropFirst().dropLast()), to: room)
        }
        guard let count = countWithoutRoot(host) else { return nil }
        for index in 0..<count {
            let byte = host[index]
            room[index] = byte &- 0x41 < 26 ? byte | 0x20 : byte
        }
        return count
    }

    /// The length of a name without the dot of the root. nil: a label is empty, the name is too long, or it is an address with a dot.
    private static func countWithoutRoot(_ name: UnsafeBufferPointer<UInt8>) -> Int? {
        let hasRoot = name.last == UInt8(ascii: ".")
        let count = hasRoot ? name.count - 1 : name.count
        guard (1...bytesMax).contains(count) else { return nil }
        var label = 0
        for index in 0..<count where name[index] == UInt8(ascii: ".") {
            guard index > label else { return nil }
            label = index + 1
        }
        guard label < count else { return nil }
        // Only a name has a root. Readers disagree whether `127.0.0.1.` is an address.
        if hasRoot, name[label..<count].allSatisfy({ (48...57).contains($0) }) { return nil }
        return count
    }

    // MARK: IPv6

    /// Letters of the longest spelling of an address: six groups and an IPv4 address.
    private static let addressBytesMax = 45

    private static func writeAddress(
        _ text: UnsafeBufferPointer<UInt8>, to room: UnsafeMutableBufferPointer<UInt8>
    ) -> Int? {
        guard (2...addressBytesMax).contains(text.count), text.allSatisfy(isAddressByte) else { return nil }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: addressBytesMax + 1) { spelling in
            for (index, byte) in text.enumerated() { spelling[index] = CChar(bitPattern: byte) }
            spelling[text.count] = 0
            var address = in6_addr()
            guard inet_pton(AF_INET6, spelling.baseAddress!, &address) == 1 else { return nil }
            return withUnsafeBytes(of: address) { write(octets: $0, to: room) }
        }
    }

    private static func isAddressByte(_ byte: UInt8) -> Bool {
        (48...58).contains(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
            || byte == UInt8(ascii: ".")
    }

    /// RFC 5952 section 4 and 5. `inet_ntop` gives other addresses a dotted end, too.
    private static func write(octets: UnsafeRawBufferPointer, to room: UnsafeMutableBufferPointer<UInt8>) -> Int {
        var output = Output(room: room)
        output.add(UInt8(ascii: "["))
        let isMapped = octets.prefix(10).allSatisfy { $0 == 0 } && octets[10] == 0xff && octets[11] == 0xff
        let groups = isMapped ? 6 : 8
        func group(_ index: Int) -> UInt16 { UInt16(octets[2 * index]) << 8 | UInt16(octets[2 * index + 1]) }
        let gap = longestZeros(groups, group)
        var index = 0
        while index < groups {
            if index == gap.lowerBound, !gap.isEmpty {
                output.add(UInt8(ascii: ":"))
                if index == 0 { output.add(UInt8(ascii: ":")) }
                index = gap.upperBound
                continue
            }
            output.add(hex: group(index))
            index += 1
            if index < 8 { output.add(UInt8(ascii: ":")) }
        }
        if isMapped {
            for place in 12..<16 {
                output.add(decimal: octets[place])
                if place < 15 { output.add(UInt8(ascii: ".")) }
            }
        }
        output.add(UInt8(ascii: "]"))
        return output.count
    }

    /// The first of the longest runs of two or more groups that are zero; empty if there is none.
    private static func longestZeros(_ groups: Int, _ group: (Int) -> UInt16) -> Range<Int> {
        var longest = 0..<0
        var start = 0
        for index in 0...groups where index == groups || group(index) != 0 {
            if index - start > max(longest.count, 1) { longest = start..<index }
            start = index + 1
        }
        return longest
    }

    private struct Output {
        let room: UnsafeMutableBufferPointer<UInt8>
        var count = 0

        mutating func add(_ byte: UInt8) {
            room[count] = byte
            count += 1
        }

        mutating func add(hex number: UInt16) {
            var shift = number > 0xfff ? 12 : number > 0xff ? 8 : number > 0xf ? 4 : 0
            while shift >= 0 {
                let digit = UInt8(number >> UInt16(shift) & 0xf)
                add(digit < 10 ? digit + 0x30 : digit + 0x57)
                shift -= 4
            }
        }

        mutating func add(decimal number: UInt8) {
            if number >= 100 { add(number / 100 + 0x30) }
            if number >= 10 { add(number / 10 % 10 + 0x30) }
            add(number % 10 + 0x30)
        }
    }
}
