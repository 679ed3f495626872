// Grafana's modules expect the default export of this CommonJS package to be its component.
import * as scrollbars from '../node_modules/react-custom-scrollbars-2/lib/index.js';

export default scrollbars.Scrollbars;
