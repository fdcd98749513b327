import CBuildCommit

/// The source that this program was built from.
enum BuildCommit {
    /// Twelve hex digits, followed by `-dirty` if files were changed; `unknown` if the build did not get a commit.
    static let text = String(cString: lanyard_build_commit())
}
