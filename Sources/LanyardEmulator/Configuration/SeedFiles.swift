import Foundation

/// The files that a configuration names.
struct SeedFiles {
    /// Relative paths start here; nil: the configuration came over the network, which may not name files.
    let folder: String?

    static func folder(of path: String) -> String {
        let folder = (path as NSString).deletingLastPathComponent
        return folder.isEmpty ? "." : folder
    }

    static func bytes(_ path: String) throws(SeedReader.ReadError) -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw SeedReader.ReadError("\(path): cannot be read")
        }
        return [UInt8](data)
    }

    /// Everything except a byte order mark and one final line end.
    static func secret(_ path: String) throws(SeedReader.ReadError) -> String {
        var text = try bytes(path)[...]
        if text.starts(with: [0xef, 0xbb, 0xbf]) { text.removeFirst(3) }
        // By bytes: as a character, a carriage return with a line feed is another one than a line feed.
        if text.last == UInt8(ascii: "\n") {
            text.removeLast()
            if text.last == UInt8(ascii: "\r") { text.removeLast() }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The text of a key, or of the file that `…_file` names.
    func text(_ key: String, _ node: ConfigurationNode) throws(SeedReader.ReadError) -> String {
        let text = try node.text(key)
        guard key.hasSuffix("_file") else { return text }
        guard let folder else { throw .init(line: node.line, "\(key) cannot stand here: give the text itself") }
        do throws(SeedReader.ReadError) {
            return try Self.secret(text.hasPrefix("/") ? text : folder + "/" + text)
        } catch {
            throw .init(line: node.line, error.description)
        }
    }
}
