import Foundation
import FuzzHeads

/// The files of a fuzz head's corpus.
enum Corpus {
    struct Input {
        var name: String
        var bytes: [UInt8]
    }

    static func inputs(of head: FuzzHead) throws -> [Input] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Fuzz/Corpora/\(head.rawValue)")
        return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .sorted { $0.path < $1.path }
            .map { Input(name: $0.lastPathComponent, bytes: Array(try Data(contentsOf: $0))) }
    }
}
