/// How YAML 1.1 reads a scalar without quotes, as Helm, the tools of Kubernetes and Python's yaml do.
///
/// Lanyard's reader keeps every scalar as text. Those programs may read a file, or the values of a chart, and write it again:
/// 0660 is 432 then, `off` is `false`, and 123456789012345678901 is 1.2345678901234568e+20.
enum PlainScalar: Equatable {
    /// The same text.
    case text
    /// `~`, `null`.
    case nothing
    /// `true`, `no`, `on`, `y` and their like.
    case boolean
    /// A number that those programs write with the same characters.
    case number
    /// A number that they write in another way: octal, hexadecimal, of base 60, with more digits than a float has.
    case changedNumber
    /// A number as only a program writes it, such as 1e+20: the text that was meant is lost.
    case writtenNumber
    /// A date, perhaps with a time.
    case date

    init(_ text: String) {
        // Nothing else begins as these do, and each value of each configuration is looked at.
        guard let first = text.utf8.first, text.utf8.count <= 64, Self.mayDiffer(first) else {
            self = .text
            return
        }
        let lowered = text.lowercased()
        let isWord = Self.isCased(text)
        switch lowered {
        case "~": self = .nothing
        case "null" where isWord: self = .nothing
        case "true" where isWord, "false" where isWord, "yes" where isWord, "no" where isWord, "on" where isWord,
            "off" where isWord, "y", "n":
            self = .boolean
        default: self = Self.number(lowered) ?? (Self.isDate(lowered) ? .date : .text)
        }
    }

    /// The words are such in small letters, in capitals, and with one capital in front.
    private static func isCased(_ text: String) -> Bool {
        let rest = text.dropFirst()
        return text == text.lowercased() || text == text.uppercased() || rest == rest.lowercased()[...]
    }

    private static func mayDiffer(_ first: UInt8) -> Bool {
        switch first {
        case 0x30...0x39, UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "~"): true
        default: "nNtTfFyYoO".utf8.contains(first)
        }
    }

    private static func number(_ text: String) -> PlainScalar? {
        let isSigned = text.hasPrefix("-") || text.hasPrefix("+")
        let magnitude = isSigned ? text.dropFirst() : text[...]
        if [".inf", ".nan"].contains(magnitude) { return .writtenNumber }
        for (prefix, digits) in [("0x", "0123456789abcdef_"), ("0o", "01234567_"), ("0b", "01_")]
        where magnitude.hasPrefix(prefix) && magnitude.utf8.count > 2 {
            return magnitude.dropFirst(2).utf8.allSatisfy { digits.utf8.contains($0) } ? .changedNumber : nil
        }
        guard magnitude.utf8.first.map({ isDigit($0) || $0 == UInt8(ascii: ".") }) == true else { return nil }
        if magnitude.utf8.contains(UInt8(ascii: ":")) { return isSexagesimal(magnitude) ? .changedNumber : nil }
        let parts = magnitude.split(separator: "e", maxSplits: 1, omittingEmptySubsequences: false)
        let mantissa = parts[0].split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard mantissa.allSatisfy({ $0.utf8.allSatisfy { isDigit($0) || $0 == UInt8(ascii: "_") } }),
            mantissa.contains(where: { $0.utf8.contains(where: isDigit) })
        else { return nil }
        if parts.count == 2 {
            let exponent = parts[1].drop { $0 == "+" || $0 == "-" }
            return !exponent.isEmpty && exponent.utf8.allSatisfy(isDigit) ? .writtenNumber : nil
        }
        return text.hasPrefix("+") || !isShort(mantissa) ? .changedNumber : .number
    }

    /// At most 15 digits, no zeros that a writer would leave out.
    private static func isShort(_ mantissa: [Substring]) -> Bool {
        let (whole, fraction) = (mantissa[0], mantissa.count == 2 ? mantissa[1] : nil)
        return whole.utf8.count + (fraction?.utf8.count ?? 0) <= 15 && !whole.isEmpty
            && mantissa.allSatisfy { $0.utf8.allSatisfy(isDigit) } && (whole == "0" || whole.first != "0")
            && fraction.map { !$0.isEmpty && $0.last != "0" } ?? true
    }

    /// `190:20:30`, with a fraction perhaps.
    private static func isSexagesimal(_ text: Substring) -> Bool {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard let first = parts.first, !first.isEmpty, first.utf8.allSatisfy(isDigit) else { return false }
        return parts.dropFirst().enumerated().allSatisfy { index, part in
            let digits = index == parts.count - 2 ? part.prefix { $0 != "." } : part
            return (1...2).contains(digits.utf8.count) && digits.utf8.allSatisfy(isDigit)
                && (digits.utf8.count == 1 || digits < "6")
                && part.dropFirst(digits.count).utf8.allSatisfy { isDigit($0) || $0 == UInt8(ascii: ".") }
        }
    }

    /// `2026-11-21`, perhaps with a time behind it.
    private static func isDate(_ text: String) -> Bool {
        let parts = text.prefix { isDigit($0.utf8.first ?? 0) || $0 == "-" }.split(
            separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].utf8.count == 4, (1...2).contains(parts[1].utf8.count),
            (1...2).contains(parts[2].utf8.count)
        else { return false }
        let rest = text.drop { isDigit($0.utf8.first ?? 0) || $0 == "-" }
        return rest.isEmpty || rest.first == "t" || rest.first == " "
    }

    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
}

extension ConfigurationValue {
    /// Whether a plain scalar of another reading would be taken for the text that it looks like.
    var isText: Bool {
        switch self {
        case .boolean, .integer, .duration, .size, .choice, .portion, .mode, .refusal, .listenAddress, .upstream, .url,
            .endpoint, .proxy, .baseURL, .brokerAddress, .origin, .pathPrefix:
            false
        case .name, .text, .file, .credential, .authority, .listedHost, .hostName, .method, .upgrade, .fieldName,
            .requiredField, .fieldValue, .injectFormat:
            true
        }
    }
}
