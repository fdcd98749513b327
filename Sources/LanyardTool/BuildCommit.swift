import CBuildCommit

/// The source that this program was built from.
enum BuildCommit {
    /// Twelve hex digits, `-dirty` behind them if files had been changed; `unknown` if the build was not told.
    static let text = String(cString: lanyard_build_commit())
}
