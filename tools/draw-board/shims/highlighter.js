// Grafana's modules expect the default export of this CommonJS package to be its component.
import * as highlighter from '../node_modules/react-highlight-words/dist/main.js';

export default highlighter.default.default ?? highlighter.default;
